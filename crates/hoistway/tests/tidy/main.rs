//! Project rules that the compiler does not check: lengths, names, words, imports between crates, files
//! that must accompany others, citations, links, and clocks in tests.
//!
//! Each rule reads the sources and fails with file, line and remedy; each is tested here with a
//! planted breach. If a rule conflicts with something that is right, change it in the same commit
//! and say why.

mod citations;
mod clocks;
mod crates;
mod documents;
mod errors;
mod graph;
mod licences;
mod manifests;
mod names;
mod policies;
mod source;
mod unused;
mod words;

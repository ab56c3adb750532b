//! vhost-user-blk with a guest in this process, one that behaves and one that does not.

mod growth;
mod guest;
mod hostile;
mod hostile_descriptors;
#[path = "../server/mod.rs"]
mod server;
mod server_side;
mod service;

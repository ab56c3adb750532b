//! The rule on words: technical terms instead of private coinages.

use crate::source::{Finding, Source, expect_lines, expect_none, written_sources};
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// Words and phrases that may stand in no text and no identifier, and what to use instead. Case and line ends within a
/// phrase do not count.
const PHRASES: &[(&str, &str)] = &[
    ("aboard", "in flight"),
    ("alight", "in flight"),
    ("whoever", "the subject: the caller, a process, a client"),
    ("nobody", "no process, no queue, no client, none"),
    ("somebody", "the subject: a process, a user, another queue"),
    ("so many", "the number or its name: N requests, at most `depth`"),
    ("what is inside", "in flight; contents"),
    ("who is inside", "in flight"),
    ("by which", "that, with which, or a sentence of its own"),
    ("who is asked", "the function that is called"),
    ("bury", "release, free"),
    ("buries", "releases, frees"),
    ("buried", "released, freed"),
    ("heed", "apply, handle"),
    ("heeds", "applies, handles"),
    ("heeded", "applied, handled"),
    ("stands aside", "disables, gives way to"),
    ("lest", "so that ... not"),
    ("thereof", "of it"),
    ("as it were", "nothing"),
];

/// Identifiers of earlier versions, and what they are called now. `*` stands for any beginning of a name.
const IDENTIFIERS: &[(&str, &str)] = &[
    // elevator
    ("Outlet", "HardwareContext"),
    ("Company", "MergeCandidates"),
    ("*_company", "try_merge, find_merge, had_cooperator"),
    ("Carrier", "OwnedVisitor, RunsIn, RunSettings"),
    ("carried_by", "into_visitor"),
    ("visited_by", "visit"),
    ("PLAINLY", "NO_EFFECT"),
    ("BEGINS_ANEW", "RESETS_INJECTION"),
    ("say_queue", "log_queue"),
    ("stays_alone", "no_merge_target"),
    ("begin_own_life", "init_split_queue"),
    ("let_woken_go", "clear_woken"),
    ("knows_actuators", "has_actuators"),
    ("KNOWS_HOLDERS", "has_owners"),
    ("bequeath_account", "fold_account_into_parent"),
    ("who_names_what", "count_references"),
    ("seeks_for_nothing", "positioning_is_free"),
    ("look_after", "check_timers"),
    ("is_for_the_root", "is_root_issued"),
    ("whose_turn", "choose_any"),
    ("LetIn", "BelowFloor"),
    ("TELLING_NS", "MIN_TELLING_NS"),
    ("strays_of", "shared_queue_of"),
    ("meet_issuer", "add_issuer"),
    ("Fare", "cost, charge"),
    // queue, device, simulator
    ("bios_inside", "bios_in_flight"),
    ("inside_of", "unthrottled_in_flight"),
    ("take_told", "take_item"),
    ("Audience", "TraceSinks"),
    ("Prospect", "PreparedRun"),
    ("Carriage", "PageIoShape"),
    ("InHand", "IoInFlight"),
    ("begin_anew", "reset"),
    ("looks_in_vain", "has_fruitless_look"),
    ("check_kinship", "check_same_kind"),
    ("Temper", "Intensity"),
    ("Vantage", "ChoiceContext"),
    ("looked_ahead", "prefetched"),
    // workload, experiment, report, tune
    ("Flying", "InFlight"),
    ("flying", "in_flight"),
    ("Originals", "RewriteBlocks"),
    ("Governor", "GoalMonitor"),
    ("Seeker", "DepthSearch"),
    ("Complaint", "ReadError"),
    ("take_up_goals", "copy_goals_from_job"),
    ("original_came", "block_was_read"),
    ("is_hopeless", "is_over_limit"),
    ("Wishes", "GroupSettings"),
    ("keeps_promise", "keeps_shares"),
    ("Contender", "Candidate"),
    ("Judgement", "Verdict"),
    ("patient_kyber", "kyber_with_relaxed_targets"),
    // engine, export, native, rig, linux
    ("Residency", "LocalClients"),
    ("open_mail", "run_jobs"),
    ("Pictured", "DispatchRecording"),
    ("MOST_TOLD_PPM", "DEVIATION_LIMIT_PPM"),
    ("says_so", "is_reported_rotational"),
    ("Reception", "HandshakeThread"),
    ("clear_the_way", "remove_stale_socket"),
    ("start_patiently", "start_with_retry"),
    ("patiently", "with_retry"),
    ("Crew", "Workers"),
    ("Ground", "Target"),
    ("Leash", "Lifetime"),
    ("DEAF_NS", "STOP_LATENCY_NS"),
    ("GLANCE_NS", "CHECK_INTERVAL_NS"),
    ("PATIENCE_NS", "DRAIN_TIMEOUT_NS"),
    ("PATIENCE", "TIMEOUT, TIME_LIMIT"),
    ("has_strangers", "has_foreign_traffic"),
    ("keep_house", "answer_internal"),
    ("Housekeeping", "Internal"),
    ("Crowd", "LoadShape"),
    ("hushed", "without_notes"),
    ("in_users_words", "with_user_target_name"),
    // kernel
    ("sort_in", "insert_sorted"),
    ("*_newcomer", "insert_new"),
    ("TICKS_DO", "TICK_RESOLUTION"),
    ("WITHHELD", "WAIT_COMPLETION"),
    ("tell_at_length", "insert_other"),
    ("dispatch_of_its_own", "dispatch_per_hctx"),
    ("has_work_of_its_own", "has_work_per_hctx"),
    ("hoist_tell", "hoist_emit_messages"),
    ("hoist_becomes", "hoist_set_condition"),
    ("hoist_timer_follows", "hoist_arm_timer"),
];

/// Files in which older words may stay: specifications, records of measurements and the history of
/// changes are not rewritten, and this file lists the words. If a message in the Linux kernel's own
/// format must contain one of the words, its file is added here; so far none does.
const EXEMPT: [&str; 4] =
    ["docs/specifications/", "docs/measured/", "CHANGELOG.md", "crates/hoistway/tests/tidy/words.rs"];

/// A word of a text, its line, and whether only spaces, underscores or line ends separate it from
/// the word before it, so that both may belong to one phrase.
struct Word {
    line: usize,
    text: String,
    continues: bool,
}

/// The words of a text in lower case. `FooBar` and `foo_bar` are two words each; a comment's leader at the beginning of a
/// line does not separate words.
fn words(text: &str) -> Vec<Word> {
    let mut words: Vec<Word> = Vec::new();
    let (mut line, mut continues, mut in_word, mut was_lower) = (1, true, false, false);
    let mut at_line_start = false;
    for c in text.chars() {
        if c.is_alphanumeric() {
            if !in_word || (was_lower && c.is_uppercase()) {
                words.push(Word { line, text: String::new(), continues });
            }
            if let Some(word) = words.last_mut() {
                word.text.extend(c.to_lowercase());
            }
            (in_word, continues, at_line_start, was_lower) = (true, true, false, c.is_lowercase());
            continue;
        }
        in_word = false;
        if c == '\n' {
            line += 1;
            at_line_start = true;
        } else if !(c == '_' || c.is_whitespace() || (at_line_start && "/!#*;>".contains(c))) {
            continues = false;
        }
    }
    words
}

/// What an earlier identifier is called now.
fn new_name(name: &str) -> Option<&'static str> {
    static NAMES: LazyLock<BTreeMap<&str, &str>> = LazyLock::new(|| IDENTIFIERS.iter().copied().collect());
    // `*` sorts before letters.
    let mut endings = NAMES.iter().map_while(|(name, instead)| Some((name.strip_prefix('*')?, *instead)));
    let by_ending = || endings.find(|(ending, _)| name.ends_with(ending)).map(|(_, instead)| instead);
    NAMES.get(name).copied().or_else(by_ending)
}

/// The parts of a line between backticks.
fn quoted_code(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

fn forbidden_words(source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    if EXEMPT.iter().any(|exempt| source.path.starts_with(exempt)) {
        return findings;
    }
    let remedy = "docs/glossary.md has the terms; the table is in crates/hoistway/tests/tidy/words.rs";
    let lines: Vec<&str> = source.text.lines().collect();
    let lower = source.text.to_lowercase();
    // Most files contain no phrase.
    let is_possible = |(phrase, _): &&(&str, &str)| phrase.split(' ').all(|part| lower.contains(part));
    let possible: Vec<_> = PHRASES.iter().filter(is_possible).collect();
    let words = if possible.is_empty() { Vec::new() } else { words(&source.text) };
    for (phrase, instead) in possible {
        let parts: Vec<&str> = phrase.split(' ').collect();
        for found in words.windows(parts.len()) {
            let is_phrase = found.iter().zip(&parts).all(|(word, part)| word.text == *part)
                && found[1..].iter().all(|word| word.continues);
            if is_phrase {
                findings.push(source.finding(found[0].line, format!("{phrase:?}; use instead: {instead}"), remedy));
            }
        }
    }
    let is_code = [".rs", ".c", ".h"].iter().any(|ending| source.path.ends_with(ending));
    let code = if is_code { source.code() } else { Vec::new() };
    let quoted =
        lines.iter().enumerate().flat_map(|(index, line)| quoted_code(line).map(move |code| (index + 1, code)));
    for (number, text) in code.iter().map(|(number, line)| (*number, line.as_str())).chain(quoted) {
        for name in text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|name| !name.is_empty()) {
            if let Some(instead) = new_name(name) {
                findings.push(source.finding(number, format!("{name:?}; use instead: {instead}"), remedy));
            }
        }
    }
    findings.sort_by_key(|finding| finding.line);
    findings
}

#[test]
fn words_are_those_of_the_field() {
    expect_none(&written_sources().iter().flat_map(forbidden_words).collect::<Vec<_>>());
}

#[test]
fn forbidden_words_are_found_in_texts_and_identifiers() {
    for (phrase, _) in PHRASES {
        let (snake, wrapped) = (phrase.replace(' ', "_"), phrase.replace(' ', "\n/// "));
        let planted = format!("/// It is {phrase}.\nfn is_{snake}() {{}}\n/// Not {wrapped} and\n");
        expect_lines(forbidden_words, "crates/queue/src/a.rs", &planted, &[1, 2, 3]);
        expect_lines(forbidden_words, "bench/a/run", &format!("#!/bin/sh\n# {}\n", phrase.to_uppercase()), &[2]);
        expect_lines(forbidden_words, "docs/measured/a.md", phrase, &[]);
    }
    for (pattern, _) in IDENTIFIERS {
        let name = pattern.replace('*', "x");
        expect_lines(forbidden_words, "crates/queue/src/a.rs", &format!("let a = {name}(1);\n// {name}\n"), &[1]);
        expect_lines(forbidden_words, "docs/a.md", &format!("# {name}\n\nThe function `{name}`.\n"), &[3]);
        expect_lines(forbidden_words, "kernel/module/a.c", &format!("a{name}b();\n"), &[]);
    }
    let right = "enum Turn { NobodyWaits }\nby the queue, which waits\nso. Many wait\nburying\n";
    expect_lines(forbidden_words, "crates/queue/src/a.rs", right, &[1]);
}

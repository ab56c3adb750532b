//! Rules on policies: who names them, the files that accompany them, and what data structures may know.

use crate::source::{Finding, Source, expect_lines, expect_none, has_word, root, sources};
use std::collections::BTreeSet;

/// Names that `structures/` must not use, so that data structures stay independent of policies.
const NOT_FOR_STRUCTURES: &[&str] =
    &["crate::request", "crate::group", "crate::interface", "RequestId", "GroupId", "ContextId", "Nanos"];

/// A row of the registry.
struct Registered {
    name: String,
    variant: String,
    module: String,
    kind: String,
}

/// Parses the rows `"name" = Variant : crate::module::Type, ...` of the registry.
fn registered(text: &str) -> Vec<Registered> {
    let row = |line: &str| {
        let (name, rest) = line.trim().strip_prefix('"')?.split_once('"')?;
        let (variant, rest) = rest.trim_start().strip_prefix('=')?.split_once(':')?;
        let path = rest.split(',').next()?.trim().strip_prefix("crate::")?;
        let (module, kind) = path.split_once("::")?;
        Some(Registered { name: name.into(), variant: variant.trim().into(), module: module.into(), kind: kind.into() })
    };
    text.lines().filter_map(row).collect()
}

fn policies() -> Vec<Registered> {
    let path = root().join("crates/elevator/src/registry.rs");
    let policies = registered(&std::fs::read_to_string(path).expect("the registry"));
    assert!(policies.len() >= 4, "the registry's rows were not understood");
    policies
}

/// Only the registry may name a policy's type; other code refers to a policy by its name as text.
/// The policy's own files are exempt.
fn names_a_policy(source: &Source, policies: &[Registered]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let in_elevator = source.path.starts_with("crates/elevator/src/");
    if source.path == "crates/elevator/src/registry.rs" {
        return findings;
    }
    let lines = source.code();
    for policy in policies {
        let own = format!("crates/elevator/src/{}", policy.module);
        // The policy's own test may use it directly.
        let test = format!("crates/elevator/tests/{}.rs", policy.module);
        if source.path == format!("{own}.rs") || source.path.starts_with(&format!("{own}/")) || source.path == test {
            continue;
        }
        let paths = [format!("crate::{}::", policy.module), format!("super::{}::", policy.module)];
        let outside = [format!("elevator::{}::", policy.module), format!("Any::{}", policy.variant)];
        for (number, line) in &lines {
            let names = |path: &String| line.contains(path.as_str());
            let inside = in_elevator && (paths.iter().any(names) || has_word(line, &policy.kind));
            if inside || outside.iter().any(names) {
                let what = format!("names the policy {}", policy.name);
                findings.push(source.finding(
                    *number,
                    what,
                    "reach policies through the registry, by their name as text",
                ));
            }
        }
    }
    findings
}

#[test]
fn only_the_registry_names_a_policy() {
    let policies = policies();
    let rule = |source: &Source| names_a_policy(source, &policies);
    expect_none(&sources(".rs").iter().flat_map(rule).collect::<Vec<_>>());
    let planted = "use crate::noop::Noop;\nlet a = Any::Wfq(x);\n// crate::noop::Noop\nlet name = \"noop\";\n";
    expect_lines(rule, "crates/elevator/src/none.rs", planted, &[1, 2]);
    expect_lines(rule, "crates/simulator/src/a.rs", "use elevator::wfq::Wfq;\nstruct Noop;\n", &[1]);
}

/// The crate `linux` may not import the policies, so it has its own list of the kernel module's
/// policies in which weights have an effect. This test compares the list with the policies.
#[test]
fn weights_have_an_effect_in_the_module_where_the_policy_says_so() {
    for entry in
        hoistway_elevator::registry::ENTRIES.iter().filter(|entry| entry.traits.is_elevator && entry.name.len() <= 12)
    {
        let scheduler = format!("hw-{}", entry.name);
        assert_eq!(hoistway_linux::cgroup::has_weights(&scheduler), entry.traits.has_shares, "{scheduler}");
    }
}

/// The files that must exist for each policy, named after it.
fn siblings(policy: &Registered) -> [Vec<String>; 3] {
    let (module, name) = (&policy.module, &policy.name);
    [
        vec![format!("crates/elevator/src/{module}.rs"), format!("crates/elevator/src/{module}/mod.rs")],
        vec![format!("crates/elevator/tests/{module}.rs"), format!("crates/elevator/tests/{module}/main.rs")],
        vec![format!("docs/elevators/{name}.md")],
    ]
}

fn missing_siblings(policies: &[Registered], exists: impl Fn(&str) -> bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    for policy in policies {
        for places in siblings(policy) {
            if !places.iter().any(|place| exists(place)) {
                let what = format!("{} is registered without this file", policy.name);
                let remedy = "write it; the other policies' files of that folder show how";
                findings.push(Finding { file: places.join(" or "), line: 1, what, remedy });
            }
        }
    }
    findings
}

/// A reader wants to know first what a scheduler is for, and whether to rely on it.
fn without_first_lines(page: &Source) -> Vec<Finding> {
    let mut paragraphs = page.text.split("\n\n").skip(1);
    let begins = |paragraph: Option<&str>, with: &str| paragraph.is_some_and(|text| text.starts_with(with));
    let is_complete =
        begins(paragraphs.next(), "**Typical use:** ") && begins(paragraphs.next(), "**Ready for production?** ");
    let what = "the page does not begin with its use and whether it is ready";
    let remedy = "begin with the paragraphs `**Typical use:** ...` and `**Ready for production?** ...`";
    if is_complete { Vec::new() } else { vec![page.finding(2, what, remedy)] }
}

#[test]
fn every_page_of_a_policy_begins_with_its_use() {
    let pages: Vec<_> = sources(".md").into_iter().filter(|page| page.path.starts_with("docs/elevators/")).collect();
    assert!(pages.len() > 10, "the pages were not found");
    expect_none(&pages.iter().flat_map(without_first_lines).collect::<Vec<_>>());
    let begin = "# a\n\n**Typical use:** b.\n\n";
    expect_lines(without_first_lines, "docs/elevators/a.md", &format!("{begin}**Ready for production?** No.\n"), &[]);
    expect_lines(without_first_lines, "docs/elevators/a.md", &format!("{begin}Text.\n"), &[2]);
}

#[test]
fn every_policy_has_its_module_test_and_page() {
    let policies = policies();
    expect_none(&missing_siblings(&policies, |place| root().join(place).exists()));
    assert_eq!(missing_siblings(&policies[..1], |place| !place.ends_with(".md")).len(), 1, "a missing page is found");

    let names: BTreeSet<String> = policies.iter().map(|policy| format!("docs/elevators/{}.md", policy.name)).collect();
    let pages = sources(".md").into_iter().filter(|page| page.path.starts_with("docs/elevators/"));
    let stray: Vec<_> = pages.filter(|page| !names.contains(&page.path)).collect();
    let remedy = "delete the page, or register its policy";
    expect_none(&stray.iter().map(|page| page.finding(1, "page of no policy", remedy)).collect::<Vec<_>>());
}

#[test]
fn the_tables_of_tunables_are_those_of_the_rows() {
    for policy in policies() {
        hoistway_testbed::check_tunables_table(&policy.name);
    }
}

fn knows_too_much(source: &Source) -> Vec<Finding> {
    let lines = if source.path.starts_with("crates/elevator/src/structures/") { source.code() } else { Vec::new() };
    let broken = lines.iter().filter_map(|(number, line)| {
        let word = NOT_FOR_STRUCTURES.iter().find(|word| line.contains(*word))?;
        let remedy = "structures hold slots and keys; what these mean is the policy's";
        Some(source.finding(*number, format!("a structure knows {word}"), remedy))
    });
    broken.collect()
}

#[test]
fn structures_know_neither_requests_nor_groups_nor_time() {
    expect_none(&sources(".rs").iter().flat_map(knows_too_much).collect::<Vec<_>>());
    expect_lines(knows_too_much, "crates/elevator/src/structures/heap.rs", "use block::RequestId;\n", &[1]);
}

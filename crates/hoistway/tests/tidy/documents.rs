//! Rules on documents: measured figures come with their command, and links resolve.

use crate::source::{Finding, Source, expect_lines, expect_none, root, sources};
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

// ---- figures ----

/// A section of a page that reports a measurement with a figure must say how to repeat it.
fn unrepeatable_figures(page: &Source) -> Vec<Finding> {
    const COMMANDS: [&str; 7] = ["cargo ", "./", "hoistway ", "fio ", "perf ", "valgrind ", "docs/measured/"];
    let mut findings = Vec::new();
    let mut section: Option<(usize, String)> = None;
    let mut in_block = false;
    let lines = page.text.lines().enumerate().map(|(index, line)| (index + 1, line)).chain([(0, "# end")]);
    for (number, line) in lines {
        in_block ^= line.starts_with("```");
        if line.starts_with('#') && !in_block {
            if let Some((first, text)) = section.take() {
                let is_claim = text.lines().any(|line| {
                    line.to_lowercase().contains("measured") && line.contains(|c: char| c.is_ascii_digit())
                });
                if is_claim && !COMMANDS.iter().any(|command| text.contains(command)) {
                    let remedy = "give date, machine and command, or the file below docs/measured/";
                    findings.push(page.finding(first, "a measured figure without its command", remedy));
                }
            }
            section = Some((number, String::new()));
        } else if let Some((_, text)) = &mut section {
            text.push_str(line);
            text.push('\n');
        }
    }
    findings
}

#[test]
fn measured_figures_come_with_their_command() {
    // A specification quotes the figures of its sources and of prototypes; those of the product are on other pages.
    let pages: Vec<_> =
        sources(".md").into_iter().filter(|page| !page.path.starts_with("docs/specifications/")).collect();
    expect_none(&pages.iter().flat_map(unrepeatable_figures).collect::<Vec<_>>());
    let planted = "# a\nmeasured: 14 ns\n# b\nmeasured: 14 ns by `cargo bench`\n# c\nmeasured elsewhere\n";
    expect_lines(unrepeatable_figures, "docs/a.md", planted, &[1]);
}

// ---- links ----

fn parse(text: &str) -> Parser<'_> {
    Parser::new_ext(text, Options::ENABLE_TABLES | Options::ENABLE_FOOTNOTES)
}

/// The anchor that GitHub and mdBook give a heading: lower case, words joined by `-`, no other signs.
fn anchor_of(heading: &str) -> String {
    let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
    heading.trim().to_lowercase().chars().filter(kept).map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// The anchors of a page. The second heading of the same text gets `-1`.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut times: BTreeMap<String, usize> = BTreeMap::new();
    let mut heading: Option<String> = None;
    for event in parse(text) {
        match event {
            Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
            Event::End(TagEnd::Heading(_)) => {
                let anchor = anchor_of(&heading.take().unwrap_or_default());
                let count = times.entry(anchor.clone()).or_default();
                found.insert(if *count == 0 { anchor } else { format!("{anchor}-{count}") });
                *count += 1;
            }
            Event::Text(part) | Event::Code(part) => {
                if let Some(heading) = &mut heading {
                    heading.push_str(&part);
                }
            }
            Event::Html(html) | Event::InlineHtml(html) => {
                let ids = html.split("id=\"").skip(1).filter_map(|rest| rest.split('"').next());
                found.extend(ids.map(str::to_owned));
            }
            _ => {}
        }
    }
    found
}

/// The links and images of a page with their lines.
fn links(page: &Source) -> Vec<(usize, String)> {
    let line = |at: usize| 1 + page.text[..at].matches('\n').count();
    let link = |(event, place): (Event, Range<usize>)| match event {
        Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
            Some((line(place.start), dest_url.to_string()))
        }
        _ => None,
    };
    parse(&page.text).into_offset_iter().filter_map(link).collect()
}

/// A relative path from a file's folder as a path from the root; `None` if it leaves the repository.
fn resolved(file: &str, relative: &str) -> Option<String> {
    let mut parts: Vec<&str> = file.split('/').collect();
    parts.pop();
    for part in relative.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// What the links of pages may lead to.
struct Targets<'a> {
    anchors: BTreeMap<&'a str, BTreeSet<String>>,
    exists: &'a dyn Fn(&str) -> bool,
}

fn targets<'a>(pages: &'a [Source], exists: &'a dyn Fn(&str) -> bool) -> Targets<'a> {
    Targets { anchors: pages.iter().map(|page| (page.path.as_str(), anchors(&page.text))).collect(), exists }
}

fn lost_links(page: &Source, targets: &Targets) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (line, link) in links(page) {
        let is_outside = link.contains("://") || link.starts_with("mailto:");
        if is_outside {
            continue;
        }
        let (path, anchor) = link.split_once('#').map_or((link.as_str(), None), |(path, anchor)| (path, Some(anchor)));
        let target = if path.is_empty() { Some(page.path.clone()) } else { resolved(&page.path, path) };
        let Some(target) = target.filter(|target| (targets.exists)(target)) else {
            findings.push(page.finding(
                line,
                format!("{link} leads to no file"),
                "correct the path, relative to this page",
            ));
            continue;
        };
        let known = targets.anchors.get(target.as_str());
        if let Some(anchor) = anchor.filter(|anchor| !known.is_some_and(|known| known.contains(*anchor))) {
            let remedy = "name a heading of the page: lower case, `-` for a space, no other signs";
            findings.push(page.finding(line, format!("{target} has no anchor #{anchor}"), remedy));
        }
    }
    findings
}

#[test]
fn links_resolve() {
    let pages: Vec<Source> = sources(".md");
    let exists = |path: &str| root().join(path).exists();
    let all = targets(&pages, &exists);
    let is_document = |page: &&Source| page.path.starts_with("docs/") || !page.path.contains('/');
    let linked: Vec<_> = pages.iter().filter(is_document).collect();
    assert!(linked.iter().map(|page| links(page).len()).sum::<usize>() > 300, "the links were not understood");
    expect_none(&linked.into_iter().flat_map(|page| lost_links(page, &all)).collect::<Vec<_>>());

    let text = "# Of `a`, b & c!\n## Two\n## Two\n\n[x](b.md)\n[x](#of-a-b--c)\n[x](../docs/a.md#two-1)\n[x](#two-2)\n\
                `[x](y.md)`\n![x](no.png)\n[x](../../b.md)\n[x](https://a.b/#c)\n\n[y]: b.md#z\n[y]\n\n    [x](code.md)\n";
    let planted =
        [Source { path: "docs/a.md".into(), text: text.into() }, Source { path: "docs/b.md".into(), text: "x".into() }];
    let exists = |path: &str| planted.iter().any(|page| page.path == path);
    let some = targets(&planted, &exists);
    expect_lines(|page| lost_links(page, &some), "docs/a.md", text, &[8, 10, 11, 15]);
}

//! The HTML page: case 13 of docs/specifications/harness.md, section 13.

mod example;

use std::fs;
use std::path::Path;

use example::Example;
use hoistway_report::page::html;

/// Writes the page to a place where it can be viewed (`CARGO_TARGET_TMPDIR`), and returns it.
fn page(name: &str, example: &Example) -> String {
    let page = html(&example.results());
    fs::write(Path::new(env!("CARGO_TARGET_TMPDIR")).join(name), &page).unwrap();
    page
}

/// Case 13: nothing is fetched; the only address in the file is the one in the text of the
/// environment.
#[test]
fn t13_the_page_refers_to_nothing_outside() {
    let page = page("several.html", &Example::new(5, &[1, 2, 4, 8], 3));
    assert_eq!(page.matches("http").count() - page.matches("http-equiv=\"Content-Security-Policy\"").count(), 1);
    assert!(page.contains("content=\"default-src 'none'; style-src 'sha256-") && !page.contains(" style="));
    assert!(
        page.contains("<dd>hoistway test model:ssd --group gold,weight=400 &lt;&amp;&gt; &quot;quoted&quot; http://")
    );
    for foreign in ["src=", "url(//", "@import", "<link", "<iframe"] {
        assert!(!page.contains(foreign), "{foreign}");
    }
}

/// Case 13: it needs no scripts, and its charts are inline.
#[test]
fn t13_the_page_has_charts_and_no_scripts() {
    let page = page("one.html", &Example::new(5, &[4], 1));
    assert!(!page.contains("<script") && !page.contains("onclick"));
    // Throughput, shares and latency in two widths; latency of each group; dispatches, ranges and
    // time for each scheduler.
    assert_eq!(page.matches("role=\"img\"").count(), 3 * 2 + 3 + 3 * 5);
    assert_eq!(page.matches("<svg").count(), page.matches("</svg>").count());
}

/// The chart of dispatches: a mark per request with its reason, grey for holds, a lane per group.
#[test]
fn every_dispatch_has_a_mark_with_its_reason() {
    let page = page("work.html", &Example::new(1, &[4], 2));
    let work = page.split_once("<h2>At work</h2>").unwrap().1.split_once("</section>").unwrap().0;
    let of_shape = |shape: &str| work.matches(shape).count();
    // 80 + 80 + 80 + 60 requests: circles for the first group and, smaller, for the system;
    // squares; triangles. Each lane has one as well.
    assert_eq!(of_shape("r=\"2.6\""), 80 + 1);
    assert_eq!(of_shape("h4.8v4.8h-4.8z"), 80 + 1);
    assert_eq!(of_shape("l3.2 5.6h-6.4z"), 80 + 1);
    assert_eq!(of_shape("r=\"1.6\""), 60 + 1);
    assert_eq!(of_shape("class=\"hold\""), 14);
    assert!(work.contains("held requests back for 1.4ms: waits for the next"));
    assert!(work.contains("bronze, 0ns: write 32k at") && work.contains(". turn &lt;begins&gt;</title>"));
    assert!(work.contains("turn goes on <b>94.7%</b>") && work.contains("not chosen by the scheduler <b>0.3%</b>"));
    assert!(work.contains("held requests back <b>10.9%</b> of the time"), "{}", work.split_once("why").unwrap().1);
    // Most were chosen because their turn continues; the others have an outline.
    assert_eq!(of_shape("u\""), 15 + 1);
}

/// Schedulers with the same dispatches share one chart and are named below it.
#[test]
fn what_happened_twice_is_drawn_once() {
    let mut example = Example::new(5, &[1], 1);
    example.repeat_dispatches(3);
    let page = html(&example.results());
    let work = page.split_once("<h2>At work</h2>").unwrap().1.split_once("</section>").unwrap().0;
    assert_eq!(work.matches("role=\"img\"").count(), 3);
    assert!(work.contains(
        "Exactly the same sequence as under none was dispatched under: <b>mq-deadline, cfq@2.6.36 slice_idle=8</b>"
    ));
}

/// Latencies are drawn per group before those of all groups together, which are a mixture.
#[test]
fn latency_is_drawn_group_by_group_first() {
    let page = html(&Example::new(5, &[4], 3).results());
    let latency = page.split_once("<h2>Latency</h2>").unwrap().1.split_once("</section>").unwrap().0;
    let (first, pooled) = latency.split_once("<summary>All groups together</summary>").unwrap();
    for group in ["bronze, weight 100", "silver, weight 200", "gold, weight 400"] {
        assert!(
            first.contains(&format!(">{group}</text>")) && !pooled.contains(&format!(">{group}</text>")),
            "{group}"
        );
    }
    // A curve for each scheduler in each group, and once more in both widths of the mixture.
    assert_eq!(first.matches(" curve\"").count(), 5 * 3 + 5, "with five in the legend");
    assert!(!first.contains("p99 "), "a figure that does not say of what");
    // A single group is no mixture.
    assert_eq!(page.matches("All groups together").count(), 2, "the note of throughput and this");
}

/// Tiles name a winner only if there is one, and the tail is that of a group.
#[test]
fn tiles_name_winners_that_are_separated() {
    let tiles = |sets| {
        let page = html(&Example::new(5, &[4], sets).results());
        page.split_once("<div class=\"tiles\">").unwrap().1.split_once("<section>").unwrap().0.to_owned()
    };
    assert!(tiles(3).contains("<div class=\"who\">wfq</div>") && !tiles(3).contains("<div class=\"who\">none</div>"));
    let once = tiles(1);
    // One run gives an order, and says that it tells no more.
    assert_eq!(once.matches("; one run only: --sets 3 tells noise from difference").count(), 2, "{once}");
    assert!(!tiles(3).contains("one run only"), "{}", tiles(3));
    assert!(once.contains("p99 of the slowest group"), "{once}");
}

/// Everything that a pointer shows is available by keyboard: each series can be focused and has its
/// figures; dispatches are listed.
#[test]
fn everything_under_the_pointer_is_reached_without_one() {
    let page = html(&Example::new(2, &[1, 4], 1).results());
    assert!(
        page.contains("aria-label=\"mq-deadline: 50 % within ") && page.contains("aria-label=\"none: bronze "),
        "{page}"
    );
    // All of the 300 requests under each of two schedulers.
    let lists: Vec<&str> =
        page.split("<pre tabindex=\"0\">").skip(1).map(|it| it.split_once("</pre>").unwrap().0).collect();
    assert_eq!(lists.iter().map(|list| list.lines().count()).collect::<Vec<_>>(), [300, 300]);
    assert!(lists[0].lines().all(|line| line.contains(" took ")), "{}", lists[0]);
}

/// Without dispatches (the kernel records none) there is no such section.
#[test]
fn a_host_that_cannot_tell_has_no_picture() {
    let mut example = Example::new(2, &[1], 1);
    example.forget_dispatches();
    assert!(!html(&example.results()).contains("At work"));
}

/// Text and marks have sufficient contrast to their background, in the light and in the dark style.
#[test]
fn colours_have_contrast() {
    let page = html(&Example::new(1, &[1], 1).results());
    let (light, rest) = page.split_once("prefers-color-scheme: dark").unwrap();
    let dark = rest.split_once("* { box-sizing").unwrap().0;
    for style in [light, dark] {
        let card = luminance(style, "card");
        let contrast = |name: &str| {
            let of = luminance(style, name);
            (of.max(card) + 0.05) / (of.min(card) + 0.05)
        };
        for (names, least) in [(&["ink", "soft", "accent"][..], 4.5), (&["bar", "axis"], 2.4)] {
            for name in names {
                assert!(contrast(name) >= least, "{name}: {}", contrast(name));
            }
        }
        for series in 0..8 {
            for name in [format!("s{series}"), format!("h{series}")] {
                assert!(contrast(&name) >= 4.0, "{name}: {}", contrast(&name));
            }
        }
    }
}

/// Relative luminance of a colour of the style sheet, as WCAG defines it.
fn luminance(style: &str, name: &str) -> f64 {
    let value = style.split_once(&format!("--{name}: #")).unwrap_or_else(|| panic!("{name}")).1;
    let part = |at: usize| {
        let part = f64::from(u8::from_str_radix(&value[at..at + 2], 16).unwrap()) / 255.0;
        if part <= 0.03928 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) }
    };
    0.2126 * part(0) + 0.7152 * part(2) + 0.0722 * part(4)
}

/// Every opened element is closed, in order.
#[test]
fn the_markup_is_well_formed() {
    for example in [Example::new(5, &[1, 8], 2), Example::new(1, &[1], 1)] {
        let page = html(&example.results());
        let body = page.split_once("<body>").unwrap().1.split_once("</body>").unwrap().0;
        let mut open: Vec<&str> = Vec::new();
        for tag in body.split('<').skip(1).map(|rest| rest.split_once('>').unwrap().0) {
            let name = tag.trim_start_matches('/').split([' ', '\n']).next().unwrap();
            if tag.starts_with('/') {
                assert_eq!(open.pop(), Some(name), "near <{tag}>");
            } else if !tag.ends_with('/') && name != "br" {
                open.push(name);
            }
        }
        assert_eq!(open, [""; 0]);
    }
}

/// The title says what was measured, and every scheduler is named beside its curve.
#[test]
fn the_page_names_what_was_measured() {
    let page = html(&Example::new(5, &[1, 2], 2).results());
    assert!(page.contains("<h1>How 5 schedulers divide model:ssd among 3 groups</h1>"));
    for name in ["none", "mq-deadline", "cfq@2.6.36 slice_idle=8", "bfq low_latency=0", "wfq"] {
        assert!(page.matches(name).count() >= 5, "{name}");
    }
    // The due share of gold is 400 of 700.
    assert!(page.contains(">57.1%</text>") && page.contains(">gold</text>"));
    assert!(page.contains("<b><code>low_latency=0*</code></b>"));
}

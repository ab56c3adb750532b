//! The blocks of a page: shell commands that call `hoistway`, printed outputs, and the marks of both.

use pulldown_cmark::{CodeBlockKind, Event, Parser, Tag, TagEnd};

/// The language of an output block, which is none, or `text`.
const OUTPUT: &[&str] = &["", "text"];

#[derive(Default)]
pub struct Marks {
    /// Commands that make what the block takes for granted.
    pub after: String,
    /// Options for the commands that begin with these words.
    pub with: String,
    without_sudo: Option<String>,
    not_run: Option<String>,
    /// The command that prints an output; without it, the block before.
    pub output_of: Option<String>,
    /// Why only the shape of an output is compared.
    pub shape_only: Option<String>,
    not_compared: Option<String>,
}

pub enum Kind {
    Commands,
    Output,
}

pub struct Block {
    pub kind: Kind,
    /// The line of its fence, from 1.
    pub line: usize,
    pub code: String,
    pub marks: Marks,
}

impl Block {
    /// The commands with their continued lines.
    pub fn commands(&self) -> Vec<String> {
        let joined = self.code.replace("\\\n", "\\\r");
        joined.lines().map(|line| line.replace("\\\r", "\\\n")).collect()
    }

    fn calls_hoistway(&self) -> bool {
        self.commands().iter().any(|command| command.trim_start_matches("sudo ").starts_with("hoistway"))
    }

    fn calls_sudo(&self) -> bool {
        self.commands().iter().any(|command| command.starts_with("sudo "))
    }
}

/// The content of an HTML comment.
fn comments(html: &str) -> impl Iterator<Item = &str> {
    html.split("<!--").skip(1).filter_map(|rest| Some(rest.split_once("-->")?.0.trim()))
}

/// Reads the marks before a block; what looks like a mark and is none is an error.
fn marks(html: &str) -> Result<Marks, String> {
    let mut marks = Marks::default();
    for comment in comments(html) {
        let (name, value) = comment.split_once(':').map_or((comment, ""), |(name, value)| (name, value.trim()));
        match (name, value.is_empty()) {
            ("run", true) => {}
            ("run after", false) => marks.after = value.into(),
            ("run with", false) => marks.with = value.into(),
            ("run without sudo", false) => marks.without_sudo = Some(value.into()),
            ("not run", false) => marks.not_run = Some(value.into()),
            ("output of", false) => marks.output_of = Some(value.into()),
            ("shape only", false) => marks.shape_only = Some(value.into()),
            ("not compared", false) => marks.not_compared = Some(value.into()),
            _ if ["run", "not run", "output", "shape", "not compared"].iter().any(|word| name.starts_with(word)) => {
                return Err(format!("no such mark, or one without a reason: {comment:?}"));
            }
            _ => {}
        }
    }
    Ok(marks)
}

/// What an output on a page is the output of.
#[derive(Clone, Copy, PartialEq)]
enum Before {
    Nothing,
    /// Commands that are run as they are shown.
    Shown,
    /// Commands that the mark `run with` shortens.
    Shortened,
    NotRun,
    /// Python, whose outputs `python/tests/test_examples.py` compares.
    Python,
}

/// The blocks of a page that are run or compared, and what is wrong with their marks.
pub fn blocks(text: &str) -> (Vec<Block>, Vec<(usize, String)>) {
    let (mut found, mut wrong) = (Vec::new(), Vec::new());
    let mut html = String::new();
    let mut before = Before::Nothing;
    let mut block: Option<Block> = None;
    for (event, range) in Parser::new(text).into_offset_iter() {
        match event {
            Event::Html(part) => html.push_str(&part),
            Event::Start(Tag::HtmlBlock) | Event::End(TagEnd::HtmlBlock) => {}
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(language))) => {
                let line = 1 + text[..range.start].matches('\n').count();
                let marks = marks(&std::mem::take(&mut html)).unwrap_or_else(|error| {
                    wrong.push((line, error));
                    Marks::default()
                });
                let kind = match &*language {
                    "sh" | "bash" | "shell" | "console" => Some(Kind::Commands),
                    language if OUTPUT.contains(&language) => Some(Kind::Output),
                    _ => None,
                };
                before = if &*language == "python" { Before::Python } else { before };
                block = kind.map(|kind| Block { kind, line, code: String::new(), marks });
            }
            Event::Text(part) if block.is_some() => {
                if let Some(block) = &mut block {
                    block.code.push_str(&part);
                }
            }
            Event::End(TagEnd::CodeBlock) => {
                let Some(block) = block.take() else { continue };
                let error = match block.kind {
                    Kind::Commands if !block.calls_hoistway() => continue,
                    Kind::Commands => commands_error(&block, &mut before),
                    Kind::Output if before == Before::Python && block.marks.output_of.is_none() => continue,
                    Kind::Output => output_error(&block, before),
                };
                let is_left_out = block.marks.not_run.is_some() || block.marks.not_compared.is_some();
                match error {
                    Some(error) => wrong.push((block.line, error.into())),
                    None if is_left_out => {}
                    None => found.push(block),
                }
            }
            _ => html.clear(),
        }
    }
    (found, wrong)
}

/// What is wrong with the marks of commands, and what an output after them is.
fn commands_error(block: &Block, before: &mut Before) -> Option<&'static str> {
    let is_left_out = block.marks.not_run.is_some();
    *before = match &block.marks {
        _ if is_left_out => Before::NotRun,
        marks if marks.with.is_empty() => Before::Shown,
        _ => Before::Shortened,
    };
    let has_mark = block.marks.without_sudo.is_some();
    (block.calls_sudo() != has_mark && !is_left_out)
        .then_some("`sudo` and the mark `run without sudo: REASON` go together")
}

/// What is wrong with the marks of an output.
fn output_error(block: &Block, before: Before) -> Option<&'static str> {
    let marks = &block.marks;
    if marks.not_compared.is_some() || marks.output_of.is_some() {
        return None;
    }
    match before {
        Before::Shown | Before::Python => None,
        Before::Shortened if marks.shape_only.is_some() => None,
        Before::Shortened => Some(
            "a reader gets other figures: the block before is shortened by `run with`; show the option there, \
             or mark the output `shape only: REASON`",
        ),
        Before::Nothing | Before::NotRun => {
            Some("of what is this the output? mark it `output of: COMMAND` or `not compared: REASON`")
        }
    }
}

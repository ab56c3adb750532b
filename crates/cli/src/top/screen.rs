//! The table on a terminal, redrawn for each interval, with keys.

use std::time::{Duration, Instant};

use hoistway_experiment::{Exit, printable};
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line as Text;
use ratatui::widgets::{Block, Cell, Clear, Paragraph, Row, Table};
use ratatui::{DefaultTerminal, Frame};

use super::TopArguments;
use super::sample::{DeviceSample, Interval};
use super::source::Source;
use super::table::{self, History, Line, Shown, Sort};
use super::tree;
use crate::exit::{Error, Outcome};
use crate::interrupt::Interrupt;

/// The longest delay of the answer to a key.
const KEYS: Duration = Duration::from_millis(100);
/// Of 76 columns at most: it is read on a terminal of 80.
const HELP: &str = "q  quit                            s  sort by the next column\n\
p  pause, and go on                r  reads and writes apart\n\
+ -  longer, shorter interval      d  next device\n\
Enter  tunables and reasons        h  this help\n\n\
DUE%   what is due by weight, but no more than the group can use\n\
DIFF   points above or below it; ! = more than 5\n\
ISOL%  how much of what is due the group got, at most 100\n\
INFL, QUEUED  mean numbers of requests in the device, and waiting";

/// The user's choices, and what is on the screen.
struct Screen<'a> {
    arguments: &'a TopArguments,
    interval: Option<Interval>,
    history: History,
    pause: Duration,
    sort: Sort,
    device: usize,
    is_paused: bool,
    is_split: bool,
    /// The source has ended; its last interval stays until a key.
    is_over: bool,
    overlay: Overlay,
}

#[derive(Copy, Clone, PartialEq, Eq)]
enum Overlay {
    None,
    Help,
    Detail,
}

/// What the caller has to do after a key.
enum KeyAction {
    Continue,
    Quit,
}

/// Runs until a key, a signal or the end of the source ends it.
pub fn run(arguments: &TopArguments, source: Source, interrupt: &Interrupt) -> Outcome {
    let mut terminal = ratatui::try_init()
        .map_err(|error| Error::failed(format!("cannot draw on this terminal: {error}"), "-b prints plain lines"))?;
    let outcome = Screen::new(arguments).show(&mut terminal, source, interrupt);
    ratatui::restore();
    outcome
}

impl<'a> Screen<'a> {
    fn new(arguments: &'a TopArguments) -> Self {
        Self {
            arguments,
            interval: None,
            history: History::default(),
            pause: arguments.interval(),
            sort: arguments.sort,
            device: 0,
            is_paused: false,
            is_split: false,
            is_over: false,
            overlay: Overlay::None,
        }
    }

    fn show(mut self, terminal: &mut DefaultTerminal, mut source: Source, interrupt: &Interrupt) -> Outcome {
        let failed = |error: std::io::Error| Error::failed(format!("the terminal: {error}"), "-b prints plain lines");
        let (mut next, mut left) = (Instant::now() + source.pause(self.pause), self.arguments.iterations);
        loop {
            terminal.draw(|frame| self.draw(frame)).map_err(failed)?;
            // Without an interval to come only keys are waited for.
            let is_still = self.is_paused || self.is_over;
            let until = if is_still { KEYS } else { next.saturating_duration_since(Instant::now()).min(KEYS) };
            if event::poll(until).map_err(failed)?
                && let Event::Key(key) = event::read().map_err(failed)?
                && let KeyAction::Quit = self.key(key)
            {
                return Ok(Exit::Done);
            }
            if let Some(exit) = interrupt.exit() {
                return Ok(exit);
            }
            if left == Some(0) && Instant::now() >= next {
                return Ok(Exit::Done);
            }
            if is_still || Instant::now() < next {
                continue;
            }
            match source.next()? {
                Some(interval) => self.take(interval)?,
                None => self.is_over = true,
            }
            left = left.map(|left| left - 1);
            next = Instant::now() + source.pause(self.pause);
        }
    }

    fn take(&mut self, interval: Interval) -> Result<(), Error> {
        let interval = super::chosen(&interval, self.arguments.device.as_deref())?;
        for device in &interval.devices {
            self.history.add(&device.name, &tree::lines(device, interval.seconds(), self.sort));
        }
        self.interval = Some(interval);
        Ok(())
    }

    fn key(&mut self, key: KeyEvent) -> KeyAction {
        if key.kind != KeyEventKind::Press {
            return KeyAction::Continue;
        }
        let toggled = |overlay, now| if overlay == now { Overlay::None } else { overlay };
        match key.code {
            KeyCode::Char('q') => return KeyAction::Quit,
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return KeyAction::Quit,
            KeyCode::Esc if self.overlay == Overlay::None => return KeyAction::Quit,
            KeyCode::Esc => self.overlay = Overlay::None,
            KeyCode::Char('s') => self.sort = self.sort.next(),
            KeyCode::Char('p' | ' ') => self.is_paused = !self.is_paused,
            KeyCode::Char('+') => self.pause = (self.pause * 2).min(Duration::from_secs(60)),
            KeyCode::Char('-') => self.pause = (self.pause / 2).max(Duration::from_millis(125)),
            KeyCode::Char('r') => self.is_split = !self.is_split,
            KeyCode::Char('d') => self.device += 1,
            KeyCode::Char('h' | '?') => self.overlay = toggled(Overlay::Help, self.overlay),
            KeyCode::Enter => self.overlay = toggled(Overlay::Detail, self.overlay),
            _ => {}
        }
        KeyAction::Continue
    }

    fn draw(&self, frame: &mut Frame<'_>) {
        let area = frame.area();
        let width = usize::from(area.width);
        let wrapped =
            |texts: Vec<String>| texts.iter().flat_map(|text| table::wrapped(text, width)).collect::<Vec<_>>();
        let sentences = wrapped(self.shown().map_or(Vec::new(), |(_, device)| device.sentences()));
        let headline = self.shown().map_or_else(
            || "hoistway top: the first interval has not ended yet".to_owned(),
            |(interval, device)| format!("hoistway top  {}", table::device_line(device, interval)),
        );
        let headline = wrapped(vec![headline]);
        let height = |lines: &[String]| u16::try_from(lines.len()).unwrap_or(u16::MAX).min(area.height / 3);
        let parts = [
            Constraint::Length(height(&headline).max(1)),
            Constraint::Min(1),
            Constraint::Length(height(&sentences)),
            Constraint::Length(1),
        ];
        let [title, body, why, foot] = Layout::vertical(parts).areas(area);
        frame.render_widget(Paragraph::new(sentences.into_iter().map(Text::from).collect::<Vec<_>>()), why);
        let state = if self.is_paused { "paused" } else { "q quit, h help" };
        let pace = if self.is_over { "the end".to_owned() } else { format!("every {:?}", self.pause) };
        let below = format!("{pace}, sorted by {}   {state}", self.sort.text());
        frame.render_widget(Paragraph::new(below).style(Style::new().add_modifier(Modifier::DIM)), foot);
        let bold = Style::new().add_modifier(Modifier::BOLD);
        frame
            .render_widget(Paragraph::new(headline.into_iter().map(Text::from).collect::<Vec<_>>()).style(bold), title);
        let Some((interval, device)) = self.shown() else { return };
        let lines = tree::lines(device, interval.seconds(), self.sort);
        let shown = Shown { split: self.is_split, width: Some(width) };
        let (header, rows) = table::cells(&device.name, &lines, shown, &self.history);
        frame.render_widget(widget(&header, rows, &lines), body);
        self.draw_overlay(frame, body, device);
    }

    /// The device on the screen.
    fn shown(&self) -> Option<(&Interval, &DeviceSample)> {
        let interval = self.interval.as_ref()?;
        let device = self.device.checked_rem(interval.devices.len())?;
        Some((interval, &interval.devices[device]))
    }

    fn draw_overlay(&self, frame: &mut Frame<'_>, area: Rect, device: &DeviceSample) {
        let (title, text) = match self.overlay {
            Overlay::None => return,
            Overlay::Help => (" keys ", HELP.lines().map(|line| Text::from(line.to_owned())).collect()),
            Overlay::Detail => {
                let notes = device
                    .notes
                    .iter()
                    .map(|(name, value)| Text::from(printable(&format!("{name}: {value}")).into_owned()));
                (" tunables and reasons ", notes.collect::<Vec<_>>())
            }
        };
        let height = u16::try_from(text.len() + 2).unwrap_or(u16::MAX).min(area.height);
        let place = Rect { y: area.y + area.height.saturating_sub(height), height, ..area };
        frame.render_widget(Clear, place);
        frame.render_widget(Paragraph::new(text).block(Block::bordered().title(title)), place);
    }
}

/// Lines that are far from their due share are bold, and also have a mark in text for users who
/// cannot see that.
fn widget(header: &[&'static str], rows: Vec<Vec<String>>, lines: &[Line]) -> Table<'static> {
    let width = |width: usize| Constraint::Length(u16::try_from(width).unwrap_or(u16::MAX));
    let widths: Vec<Constraint> = table::widths(header, &rows).into_iter().map(width).collect();
    let aligned = |column: &str, text: String| {
        let line = Text::from(text);
        Cell::from(if table::is_left(column) { line } else { line.right_aligned() })
    };
    let head = Row::new(header.iter().map(|column| aligned(column, (*column).to_owned())).collect::<Vec<_>>());
    let body: Vec<Row<'static>> = rows
        .into_iter()
        .zip(lines)
        .map(|(row, line)| {
            let cells = row.into_iter().zip(header).map(|(text, column)| aligned(column, text));
            let style = if line.is_far() { Style::new().add_modifier(Modifier::BOLD) } else { Style::new() };
            Row::new(cells.collect::<Vec<_>>()).style(style)
        })
        .collect();
    Table::new(body, widths).header(head.style(Style::new().add_modifier(Modifier::REVERSED))).column_spacing(2)
}

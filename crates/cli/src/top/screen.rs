//! The terminal while it is drawn on. It is restored at the end, on a panic, and while the process
//! is stopped.

use std::io::{self, stdin, stdout};
use std::mem::ManuallyDrop;

use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{Clear, ClearType, EnterAlternateScreen, size};
use ratatui::layout::Rect;
use ratatui::{DefaultTerminal, Terminal, TerminalOptions, Viewport};
use rustix::termios::tcgetattr;

use super::draw::draw;
use super::view::View;
use crate::exit::{End, Failure};

/// The terminal in drawing mode. Dropping this restores it; so does a panic, before its message is
/// printed.
#[derive(Debug)]
pub(crate) struct Screen {
    /// Never dropped: if the cursor cannot be shown, dropping it prints why, and panics if that fails.
    terminal: ManuallyDrop<DefaultTerminal>,
    area: Rect,
}

impl Screen {
    pub(crate) fn take() -> Result<Self, Failure> {
        let taken = area().and_then(|area| Ok(Self { terminal: enter(area)?, area }));
        taken.map_err(|error| {
            let _ = ratatui::try_restore();
            failure(error)
        })
    }

    pub(crate) fn draw(&mut self, view: &mut View) -> Result<(), Failure> {
        if area().map_err(failure)? != self.area {
            self.draw_anew()?;
        }
        self.terminal.draw(|frame| draw(frame, view)).map(drop).map_err(failure)
    }

    /// Redraws everything next time: the size has changed, or another program may have written over
    /// it. The terminal is not asked, because its answer would be read as typed keys.
    pub(crate) fn draw_anew(&mut self) -> Result<(), Failure> {
        let anew = area().and_then(|area| {
            execute!(stdout(), Clear(ClearType::All))?;
            let terminal = Terminal::with_options(CrosstermBackend::new(stdout()), all_of(area))?;
            self.terminal = ManuallyDrop::new(terminal);
            self.area = area;
            self.terminal.hide_cursor()
        });
        anew.map_err(failure)
    }

    /// Restores the terminal while `others` runs.
    pub(crate) fn leave_while(&mut self, others: impl FnOnce()) -> Result<(), Failure> {
        let _ = self.terminal.show_cursor();
        ratatui::try_restore().map_err(failure)?;
        others();
        self.area = area().map_err(failure)?;
        self.terminal = enter(self.area).map_err(failure)?;
        self.draw_anew()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // If the terminal is gone, there is nothing to restore.
        let _ = self.terminal.show_cursor();
        let _ = ratatui::try_restore();
    }
}

/// Switches to the alternate screen, so that the normal one is unchanged afterwards.
fn enter(area: Rect) -> io::Result<ManuallyDrop<DefaultTerminal>> {
    let terminal = ratatui::try_init_with_options(all_of(area))?;
    execute!(stdout(), EnterAlternateScreen)?;
    Ok(ManuallyDrop::new(terminal))
}

/// Returns true if the terminal was closed, or its session has ended.
pub(crate) fn is_gone() -> bool {
    tcgetattr(stdin()).is_err()
}

fn area() -> io::Result<Rect> {
    size().map(|(width, height)| Rect::new(0, 0, width, height))
}

fn all_of(area: Rect) -> TerminalOptions {
    TerminalOptions { viewport: Viewport::Fixed(area) }
}

fn failure(error: io::Error) -> Failure {
    let line = format!("the terminal cannot be drawn on: {error}: use another, or `leasehold ls`");
    Failure::new(End::CANNOT_EXECUTE, line)
}

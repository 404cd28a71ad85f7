//! `interrex top`: the cluster at a glance, in a terminal, through failovers.
//!
//! Asks any master who leads, and the leader for its metrics: that costs the leader what a scrape costs, however many
//! drivers there are. What must never happen: that it ends, or shows old figures as new ones, because nobody answers.

mod figures;
mod look;
mod screen;

use std::{io::IsTerminal, time::Duration};

use crossterm::event::{self, Event, KeyCode, KeyModifiers};
use tokio::time::Instant;

use self::{look::Looker, screen::draw};
use crate::{
    connect::Connect,
    exit::{Done, Exit, Failure},
};

const EXAMPLES: &str = "\
Examples:
  interrex top
  interrex top --interval 5s --masters a:7077,b:7077,c:7077

Keys: q or Ctrl-C ends it. Figures are those of the leader; while there is none, the last ones are shown as old.";

/// Options of `interrex top`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct TopArgs {
    /// How often to look
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = humantime::parse_duration)]
    interval: Duration,
    #[command(flatten)]
    connect: Connect,
}

/// Runs `interrex top` until somebody ends it.
pub(crate) async fn run(args: TopArgs) -> Done {
    if !std::io::stdout().is_terminal() {
        return Err(Failure::usage(
            "top draws on a terminal, and this is none; `interrex cluster status -o json` is for programs",
        ));
    }
    let interval = args.interval.max(Duration::from_millis(100));
    let mut looker = Looker::new(&args.connect, interval)?;
    // Puts the terminal back also when something panics.
    let mut terminal =
        ratatui::try_init().map_err(|e| Failure::io("drawing on the terminal", &e))?;
    let done = follow(&mut looker, &mut terminal, interval).await;
    ratatui::restore();
    done
}

async fn follow(
    looker: &mut Looker,
    terminal: &mut ratatui::DefaultTerminal,
    interval: Duration,
) -> Done {
    loop {
        let seen = looker.look().await;
        terminal
            .draw(|frame| draw(frame, seen))
            .map_err(|e| Failure::io("drawing on the terminal", &e))?;
        let until = Instant::now() + interval;
        while Instant::now() < until {
            // Looks at the keyboard in small steps instead of in a thread that would outlive this.
            tokio::time::sleep(Duration::from_millis(50)).await;
            if ended()? {
                return Ok(Exit::Ok);
            }
        }
    }
}

/// Whether a key that ends this was pressed. Never waits.
fn ended() -> Result<bool, Failure> {
    let failed = |e: std::io::Error| Failure::io("reading keys", &e);
    while event::poll(Duration::ZERO).map_err(failed)? {
        if let Event::Key(key) = event::read().map_err(failed)? {
            let control = key.modifiers.contains(KeyModifiers::CONTROL);
            if key.code == KeyCode::Char('q')
                || key.code == KeyCode::Esc
                || (control && key.code == KeyCode::Char('c'))
            {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

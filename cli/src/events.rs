//! `interrex events`: what was decided, by whom and why; with `-f` as it happens, through failovers.

use std::time::Duration;

use interrex_client::control::{EventNews, EventStart};
use interrex_proto::v1::{Event, EventFilter, ListEventsRequest};

use crate::{
    connect::Connect,
    exit::{Done, Exit, Failure},
    output::{self, Format, OutputArgs},
    shutdown::Shutdown,
    units::timestamp,
};

/// How many events are shown where nothing says how many.
const TAIL: u32 = 20;
/// A leader says something every 2 s; after this time without a word people are told.
const QUIET: Duration = Duration::from_secs(5);
/// Most events of one answer, and the longest tail.
const PAGE: u32 = interrex_proto::limits::PAGE_SIZE_MAX;

const EXAMPLES: &str = "\
Examples:
  interrex events                                   # the newest 20
  interrex events -f                                # and what comes, through failovers; Ctrl-C ends it
  interrex events --id driver-20260201143200-0000   # of a driver, an application, a worker or a submission
  interrex events --kind worker --tail 100          # WORKER_ALIVE, WORKER_DEAD, ...
  interrex events -f --kind DRIVER_F -o json        # one JSON object a line
  interrex events --since all -o json               # everything that is kept
  interrex events -f --since 1234                   # go on behind event 1234

The log keeps the newest 10,000 events. What is missing in front of an asked or a followed place is said on stderr.";

/// Options of `interrex events`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct EventsArgs {
    /// Show what comes, too
    #[arg(short, long)]
    follow: bool,
    /// Begin behind this event, or with the oldest one (`all`)
    #[arg(long, value_name = "SEQUENCE|all", value_parser = parse_since)]
    since: Option<Since>,
    /// Begin with so many of the newest events [default: 20, without --since]
    #[arg(long, value_name = "N", conflicts_with = "since")]
    #[arg(value_parser = clap::value_parser!(u32).range(..=i64::from(PAGE)))]
    tail: Option<u32>,
    /// Only those about this driver, application, executor (APP/NUMBER), worker or submission
    #[arg(long, value_name = "ID", default_value = "")]
    id: String,
    /// Only those whose kind begins with this, in any case of letters
    #[arg(long, value_name = "KIND", default_value = "")]
    kind: String,
    #[command(flatten)]
    connect: Connect,
    #[command(flatten)]
    output: OutputArgs,
}

/// Where to begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Since {
    All,
    After(u64),
}

/// Prints events, the heading first.
#[derive(Debug)]
struct Printer {
    format: Format,
    begun: bool,
}

/// Runs `interrex events`.
pub(crate) async fn run(args: EventsArgs) -> Done {
    let printer = Printer {
        format: args.output.output,
        begun: false,
    };
    let mut signals = Shutdown::listen()?;
    tokio::select! {
        done = async {
            match args.follow {
                true => follow(args, printer).await,
                false => list(args, printer).await,
            }
        } => done,
        // The ordinary end of what never ends.
        _ = signals.asked() => Ok(Exit::Ok),
    }
}

async fn list(args: EventsArgs, mut printer: Printer) -> Done {
    let client = args.connect.client()?;
    let (after_sequence, last) = match args.start() {
        EventStart::Oldest => (None, None),
        EventStart::After(sequence) => (Some(sequence), None),
        EventStart::Last(count) => (None, Some(count)),
    };
    let mut request = ListEventsRequest {
        after_sequence,
        page_size: PAGE,
        filter: Some(args.filter()),
        last,
    };
    loop {
        let page = client.list_events(request.clone());
        let page = args.connect.patiently(page).await?;
        if let Some(kept) = page.must_relist {
            let after = request.after_sequence.unwrap_or_default();
            say_gap(after, kept.oldest, kept.newest);
            request.after_sequence = Some(kept.oldest.saturating_sub(1));
            continue;
        }
        if !printer.print(&page.events)? || !page.more {
            return Ok(Exit::Ok);
        }
        (request.after_sequence, request.last) = (Some(page.through), None);
    }
}

async fn follow(args: EventsArgs, mut printer: Printer) -> Done {
    let client = args.connect.client()?;
    let mut stream = client.watch_events(args.start(), args.filter());
    let mut news = args.connect.patiently(stream.next()).await?;
    loop {
        match news {
            EventNews::Events { events, .. } => {
                if !printer.print(&events)? {
                    return Ok(Exit::Ok);
                }
            }
            EventNews::Gap {
                after,
                oldest,
                newest,
            } => say_gap(after, oldest, newest),
        }
        news = noticed(stream.next()).await?;
    }
}

/// Waits for news, and says so when the leader says nothing for long.
async fn noticed<T>(next: impl Future<Output = T>) -> T {
    tokio::pin!(next);
    tokio::select! {
        news = &mut next => return news,
        () = tokio::time::sleep(QUIET) => {
            output::say("no leader has been heard of for a while; looking for one");
        }
    }
    next.await
}

// === impl EventsArgs ===

impl EventsArgs {
    fn start(&self) -> EventStart {
        match (self.since, self.tail) {
            (Some(Since::All), _) => EventStart::Oldest,
            (Some(Since::After(sequence)), _) => EventStart::After(sequence),
            (None, tail) => EventStart::Last(tail.unwrap_or(TAIL)),
        }
    }

    fn filter(&self) -> EventFilter {
        EventFilter {
            id: self.id.clone(),
            kind: self.kind.clone(),
        }
    }
}

// === impl Printer ===

impl Printer {
    /// False when nobody reads any more.
    fn print(&mut self, events: &[Event]) -> Result<bool, Failure> {
        let mut text = String::new();
        if !self.begun && self.format == Format::Table {
            text.push_str(HEADING);
            self.begun = true;
        }
        for event in events {
            match self.format {
                Format::Table => text.push_str(&line(event)),
                Format::Json => {
                    let json = serde_json::to_string(event);
                    text.push_str(
                        &json.map_err(|e| Failure::failed(format!("writing JSON: {e}")))?,
                    );
                    text.push('\n');
                }
            }
        }
        output::stream(text.as_bytes())
    }
}

const HEADING: &str =
    "TIME                  EPOCH  KIND                   SUBJECT                     WORDS\n";

/// One event for people. Columns have a fixed width, because nobody knows what follows.
pub(crate) fn line(event: &Event) -> String {
    let mut words = Vec::new();
    if !event.worker_id.is_empty() {
        words.push(match event.attempt {
            Some(attempt) => format!("{} attempt {attempt}", event.worker_id),
            None => event.worker_id.clone(),
        });
    }
    if !event.why.is_empty() {
        words.push(event.why.clone());
    }
    let words = words.join(": ");
    format!(
        "{:<20}  {:>5}  {:<21}  {:<26}  {words} ({})\n",
        timestamp(event.at_ms),
        event.epoch,
        event.kind,
        event.subject,
        event.who
    )
}

fn say_gap(after: u64, oldest: u64, newest: u64) {
    let text = if after > newest {
        format!(
            "the log ends with event {newest}, before event {after}: it was restored from an older state; going on \
             with event {oldest}"
        )
    } else {
        let (first, last) = (after.saturating_add(1), oldest.saturating_sub(1));
        format!("events {first} to {last} are no longer kept; going on with event {oldest}")
    };
    output::say(&text);
}

fn parse_since(text: &str) -> Result<Since, String> {
    if text == "all" {
        return Ok(Since::All);
    }
    let number = text
        .parse()
        .map_err(|why| format!("{why}; write the number of an event, or all"));
    number.map(Since::After)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_number_or_everything() {
        assert_eq!(parse_since("all"), Ok(Since::All));
        assert_eq!(parse_since("17"), Ok(Since::After(17)));
        assert!(parse_since("yesterday").is_err());
    }

    #[test]
    fn a_line_says_when_what_where_why_and_who() {
        let event = Event {
            sequence: 7,
            epoch: 3,
            at_ms: 1_795_962_720_000,
            kind: "DRIVER_FAILED".into(),
            subject: "driver-20261129143200-0001".into(),
            worker_id: "w1".into(),
            attempt: Some(2),
            who: "agent w1".into(),
            why: "exit code 3".into(),
        };
        assert_eq!(
            line(&event),
            "2026-11-29T14:32:00Z      3  DRIVER_FAILED          driver-20261129143200-0001  \
             w1 attempt 2: exit code 3 (agent w1)\n"
        );
        assert_eq!(HEADING.find("KIND"), line(&event).find("DRIVER_FAILED"));
        assert_eq!(HEADING.find("WORDS"), line(&event).find("w1 attempt"));
    }
}

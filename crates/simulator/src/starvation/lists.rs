//! The promises of those that keep lists: who may go before one that came earlier, and how often.

use block::{Direction, Flags, Operation};
use elevator::{Attributes, Passing, Version};

use super::{Queued, Terms, Waiting, pass};
use crate::invariants::Broken;

/// Points that an insertion before it costs a request of linus since 2.4.20.
const SEEK_COST: u64 = 16;

/// What a list promises.
#[derive(Copy, Clone, Debug)]
pub(super) enum Lists {
    /// Nobody is passed over.
    InOrder,
    /// Nobody is, but by those that went beside the neighbour that had no room for them.
    BesideNeighbours,
    /// Lists of software queues take turns or leave together.
    InTurn,
    /// Later ones for so many points each.
    Budget { seek_cost: u64 },
    /// The same, but reads, and whoever goes beside its neighbour, pass for nothing.
    BudgetOfWrites,
    /// None that came when it was overdue.
    Wall,
}

impl Lists {
    /// What the policy of these terms promises, if it keeps a list.
    pub(super) fn of(terms: &Terms) -> Option<Self> {
        Some(match terms.passing {
            Passing::Never if terms.is_since(Version(2, 6, 0)) => Lists::InOrder,
            Passing::Never => Lists::BesideNeighbours,
            Passing::ListsInTurn => Lists::InTurn,
            Passing::Budget { reads_pass: true } => Lists::BudgetOfWrites,
            Passing::Budget { .. } if terms.is_since(Version(2, 4, 20)) => Lists::Budget { seek_cost: SEEK_COST },
            // Insertions cost nothing then, but each scan costs a point whoever it comes by; and whoever is to go before
            // a request has come by it.
            Passing::Budget { .. } => Lists::Budget { seek_cost: 1 },
            Passing::NotOverdue => Lists::Wall,
            _ => return None,
        })
    }

    /// How much one that enters may be passed over for.
    pub(super) fn allowed(self, attributes: &Attributes, waiting: &Queued, terms: &Terms) -> u64 {
        let seek_cost = match self {
            Lists::Budget { seek_cost } => seek_cost,
            Lists::BudgetOfWrites => SEEK_COST,
            Lists::InTurn => return turns_up_to(attributes, waiting, terms),
            _ => return 0,
        };
        let is_special = attributes.operation == Operation::Passthrough || attributes.flags.contains(Flags::BARRIER);
        let tunable = if attributes.direction() == Direction::Read { "read_latency" } else { "write_latency" };
        match terms.count(tunable) {
            points if points == 0 || is_special => 0,
            // With a single point left one more may still come.
            points => points + seek_cost - 1,
        }
    }

    /// One has entered; the others may have more to wait for now.
    pub(super) fn entered(self, entered: &Waiting, waiting: &mut Queued) {
        if !matches!(self, Lists::InTurn) {
            return;
        }
        // Whatever comes while it waits may leave with it, in front of it.
        let later = waiting.values_mut().filter(|other| other.id != entered.id);
        for other in later.filter(|other| other.attributes.hardware_queue == entered.attributes.hardware_queue) {
            other.allowed += u64::from(other.attributes.software_queue > entered.attributes.software_queue);
        }
    }

    /// One was chosen: it has passed over those that it went before.
    pub(super) fn chosen(self, chosen: &Waiting, waiting: &mut Queued, terms: &Terms) -> Result<u64, Broken> {
        let is_read = chosen.attributes.direction() == Direction::Read;
        let came_before = |other: &Waiting| other.order < chosen.order;
        match self {
            Lists::BesideNeighbours if chosen.touched => {
                Ok(waiting.values().filter(|other| came_before(other)).count() as u64)
            }
            Lists::InOrder | Lists::BesideNeighbours => pass(waiting, chosen, 1, came_before),
            Lists::InTurn => {
                pass(waiting, chosen, 1, |other| other.attributes.hardware_queue == chosen.attributes.hardware_queue)
            }
            // Beside a neighbour that was too full for it, it costs what joining it would have.
            Lists::Budget { seek_cost } => {
                pass(waiting, chosen, if chosen.touched { 1 } else { seek_cost }, came_before)
            }
            Lists::BudgetOfWrites if chosen.touched || is_read => Ok(0),
            Lists::BudgetOfWrites => pass(waiting, chosen, SEEK_COST, came_before),
            // Who may join a request behind a wall goes beside it when it is too full.
            Lists::Wall if chosen.touched && terms.count("merge_past_expired") > 0 => Ok(0),
            Lists::Wall => pass(waiting, chosen, 1, |other| {
                other.attributes.direction() == chosen.attributes.direction()
                    && other.attributes.device == chosen.attributes.device
                    && other.due_ns < chosen.inserted_ns
            }),
        }
    }
}

/// none: what is there already, and a turn of every list for each of its own that is before it.
fn turns_up_to(attributes: &Attributes, waiting: &Queued, terms: &Terms) -> u64 {
    let of_queue = |other: &&Waiting| other.attributes.hardware_queue == attributes.hardware_queue;
    let (all, own) = waiting.values().filter(of_queue).fold((0, 0), |(all, own), other| {
        (all + 1, own + u64::from(other.attributes.software_queue == attributes.software_queue))
    });
    all + (own + 1) * terms.software_queues
}

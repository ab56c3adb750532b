//! What lies beyond the wheel's horizon: a pairing heap threaded through the events themselves, so that it takes no
//! memory of its own.
//!
//! Cost     a comparison for an insertion; O(log n) amortised for a removal.
//! Source   Fredman, Sedgewick, Sleator & Tarjan 1986.

use block::{NIL, Nanos};

use super::Node;

/// The events beyond the horizon. Equal times come out in any order, though always in the same one.
#[derive(Copy, Clone, Debug)]
pub(super) struct Beyond {
    root: u32,
    len: usize,
}

impl Beyond {
    pub(super) const EMPTY: Beyond = Beyond { root: NIL, len: 0 };

    #[inline]
    pub(super) const fn len(self) -> usize {
        self.len
    }

    /// Time of the earliest event.
    #[inline]
    pub(super) fn next_time(self, nodes: &[Node]) -> Option<Nanos> {
        nodes.get(self.root as usize).map(|node| node.time)
    }

    /// Takes in an event that is nowhere.
    pub(super) fn push(&mut self, nodes: &mut [Node], node: u32) {
        (nodes[node as usize].next, nodes[node as usize].child) = (NIL, NIL);
        self.root = join(nodes, self.root, node);
        self.len += 1;
    }

    /// Takes the earliest event out.
    pub(super) fn pop(&mut self, nodes: &mut [Node]) -> Option<u32> {
        let earliest = self.root;
        let mut rest = nodes.get(earliest as usize)?.child;
        // Its children meet in pairs from the first to the last; the winners meet from the last to the first.
        let mut winners = NIL;
        while rest != NIL {
            let one = rest;
            let other = std::mem::replace(&mut nodes[one as usize].next, NIL);
            rest = if other == NIL { NIL } else { std::mem::replace(&mut nodes[other as usize].next, NIL) };
            let winner = join(nodes, one, other);
            nodes[winner as usize].next = std::mem::replace(&mut winners, winner);
        }
        self.root = NIL;
        while winners != NIL {
            let winner = winners;
            winners = std::mem::replace(&mut nodes[winner as usize].next, NIL);
            self.root = join(nodes, self.root, winner);
        }
        self.len -= 1;
        Some(earliest)
    }
}

/// Makes one heap of two, either of which may be empty: the later root becomes a child of the earlier. Neither root has
/// a sibling.
#[inline]
fn join(nodes: &mut [Node], one: u32, other: u32) -> u32 {
    if one == NIL || other == NIL {
        return if one == NIL { other } else { one };
    }
    let is_first = nodes[one as usize].time <= nodes[other as usize].time;
    let (winner, loser) = if is_first { (one, other) } else { (other, one) };
    nodes[loser as usize].next = nodes[winner as usize].child;
    nodes[winner as usize].child = loser;
    winner
}

#[cfg(test)]
mod tests {
    use super::super::Payload;
    use super::*;
    use block::random::Stream;

    #[test]
    fn whatever_the_order_of_calls_the_earliest_comes_out() {
        let mut stream = Stream::new(7);
        let node = |time| Node { time, sequence: 0, payload: Payload::new(0, 0), next: 5, child: 5 };
        let mut nodes: Vec<_> = (0..500).map(|_| node(stream.below(200))).collect();
        let (mut beyond, mut inside, mut outside) = (Beyond::EMPTY, Vec::new(), (0..500).collect::<Vec<u32>>());
        for _ in 0..20_000 {
            if !outside.is_empty() && (inside.is_empty() || stream.chance(1, 2)) {
                let index = outside.pop().unwrap();
                nodes[index as usize].time = stream.below(200);
                beyond.push(&mut nodes, index);
                inside.push(index);
            } else {
                let earliest = inside.iter().map(|&index| nodes[index as usize].time).min();
                assert_eq!(beyond.next_time(&nodes), earliest);
                let popped = beyond.pop(&mut nodes).unwrap();
                assert_eq!(Some(nodes[popped as usize].time), earliest);
                inside.retain(|&index| index != popped);
                outside.push(popped);
            }
            assert_eq!(beyond.len(), inside.len());
        }
        let mut empty = Beyond::EMPTY;
        assert_eq!((empty.pop(&mut nodes), empty.next_time(&nodes)), (None, None));
    }
}

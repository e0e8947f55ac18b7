use rand::Rng;

use super::{
    fuzz_state::{FuzzState, PROCESSES},
    operation::Operation,
};

/// Calls that follow one another in one round trip.
impl FuzzState {
    pub(super) fn add_scenes(&mut self, operations: &mut Vec<(usize, Operation)>) {
        if self.random.random_bool(0.05) {
            operations.extend(self.begin_anew(0));
        }
        if self.random.random_bool(0.02) {
            operations.extend(self.join_first(0));
        }
        // What depends on the time between two calls is in one round trip: on a busy machine a load takes less time
        // than lies between two of them.
        let place = self.random.random_range(0..self.places.len());
        if self.random.random_bool(0.05) {
            operations.extend(self.ask_during_an_early_load(place));
        }
        if self.random.random_bool(0.02) {
            operations.extend(self.ask_after_two_failures(place));
        }
    }

    /// Loses the table of tags and invalidates tags. In a new table without a value the stamps are deleted at once.
    fn begin_anew(&mut self, place: usize) -> Vec<(usize, Operation)> {
        let run = self.run();
        let mut operations = vec![(place, Operation::Lose)];
        operations.extend((0..3).map(|_| (place, self.invalidate_tag(run.clone()))));
        operations
    }

    /// A load that a process begins at once, and its token.
    fn lease(&mut self, place: usize, early: bool, run: &str) -> (String, Operation) {
        let (token, process, known) = (self.next_name("token"), PROCESSES[0], self.known[0]);
        self.places[place].tokens.push(token.clone());
        let (lease, longest, run) = (Operation::LONGEST_LEASE, 300, run.to_owned());
        (token.clone(), Operation::Lease { token, lease, process, early, content: false, longest, run, known })
    }

    /// A value is loaded again before it expires. In most cases it becomes outdated meanwhile. Then somebody asks for
    /// it, while the load goes on.
    fn ask_during_an_early_load(&mut self, place: usize) -> Vec<(usize, Operation)> {
        let run = self.run();
        let (token, first) = self.lease(place, false, &run);
        let ((_, again), (_, asks)) = (self.lease(place, true, &run), self.lease(place, false, &run));
        let [tag, ..] = Operation::TAGS;
        let (value, tags) = (format!("{token} {}", self.next_name("value")), tag.to_owned());
        let fill = Operation::Fill { token, value, ttl: 300, grace: 250, tags, run: run.clone() };
        let random = self.next_name("random");
        let invalidate = Operation::InvalidateTag { tag, longest: 2_000_000, run, random };
        let meanwhile = match self.random.random_range(0..4) {
            0 => vec![],
            1 => vec![invalidate],
            2 => vec![invalidate, Operation::Forget],
            _ => vec![Operation::Lose, invalidate],
        };
        let steps = [Operation::Invalidate, first, fill, again].into_iter().chain(meanwhile).chain([asks]);
        steps.map(|step| (place, step)).collect()
    }

    /// Two loads fail, and somebody asks for the value.
    fn ask_after_two_failures(&mut self, place: usize) -> Vec<(usize, Operation)> {
        let run = self.run();
        let mut steps = vec![Operation::Invalidate];
        for hold in [0, 250] {
            let (token, lease) = self.lease(place, false, &run);
            steps.extend([lease, Operation::Abort { token, hold, counts: true, unstorable: false }]);
        }
        steps.push(self.lease(place, false, &run).1);
        steps.into_iter().map(|step| (place, step)).collect()
    }

    /// A process joins, and the server has neither epoch nor marker.
    fn join_first(&mut self, place: usize) -> Vec<(usize, Operation)> {
        let (run, known) = (self.run(), self.known());
        let join = Operation::Join { run, longest: self.random.random_range(0..200), known };
        vec![(place, Operation::LoseEpoch { marker: true }), (place, join)]
    }
}

/// What came of a stream of events, cut at the empty line that ends each event.
#[derive(Debug, Default)]
pub(super) struct Frames {
    unread: Vec<u8>,
    /// No event ends before this place: it is not searched again when more comes.
    searched: usize,
}

impl Frames {
    pub(super) fn push(&mut self, chunk: &[u8]) {
        self.unread.extend_from_slice(chunk);
    }

    /// The next event that is whole, with its empty line.
    pub(super) fn next(&mut self) -> Option<Vec<u8>> {
        let rest = &self.unread[self.searched..];
        let Some(end) = rest.windows(2).position(|pair| pair == b"\n\n") else {
            // The last byte may be the first half of the empty line.
            self.searched = self.unread.len().saturating_sub(1);
            return None;
        };
        let event = self.unread.drain(..self.searched + end + 2).collect();
        self.searched = 0;
        Some(event)
    }

    /// How many bytes wait for the end of their event.
    pub(super) fn waiting(&self) -> usize {
        self.unread.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_the_same_wherever_the_stream_is_cut() {
        let stream = b"data: a\n\ndata: b\nmore\n\n\n\ndata: c";
        let events: [&[u8]; 3] = [b"data: a\n\n", b"data: b\nmore\n\n", b"\n\n"];
        for size in 1..=stream.len() {
            let (mut frames, mut seen) = (Frames::default(), Vec::new());
            for chunk in stream.chunks(size) {
                frames.push(chunk);
                seen.extend(std::iter::from_fn(|| frames.next()));
            }
            assert_eq!(seen, events, "{size}");
            assert_eq!(frames.waiting(), b"data: c".len(), "{size}");
        }
    }

    #[test]
    fn what_was_searched_is_not_searched_again() {
        let mut frames = Frames::default();
        for pushed in 1..100 {
            frames.push(b"x");
            assert_eq!(frames.next(), None);
            assert_eq!(frames.searched, pushed - 1);
        }
    }
}

use std::collections::HashMap;

/// The messages that processes hear: how many of each kind, and the last number of each sequence.
#[derive(Debug, Default)]
pub(super) struct Messages {
    pub(super) woken: u64,
    /// How many messages about tags were heard.
    pub(super) tags: u64,
    /// The newest epoch that was published on each channel.
    pub(super) epochs: HashMap<String, u64>,
    sequences: HashMap<(String, String), u64>,
}

impl Messages {
    pub(super) fn message(&mut self, channel: &str, payload: &str) {
        if payload.starts_with("C ") {
            self.woken += 1;
            return;
        }
        if let Some(epoch) = payload.strip_prefix("E ") {
            let epoch = epoch.parse().unwrap();
            let last = self.epochs.insert(channel.to_owned(), epoch).unwrap_or_default();
            assert!(epoch >= last, "epoch {epoch} after {last}");
            return;
        }
        let words: Vec<_> = payload.splitn(3, ' ').collect();
        let number: u64 = words[1].parse().unwrap();
        let last = self.sequences.insert((channel.to_owned(), words[0].to_owned()), number).unwrap_or_default();
        let expected = if words[2] == "-" { last } else { last + 1 };
        assert_eq!(number, expected, "`{payload}` after {last}");
        self.tags += u64::from(words[2].starts_with('#'));
    }
}

use std::{
    ops::RangeInclusive,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use redis::Value;
use tokio::time::Instant;

/// The bounds of the size of a window. It begins with the least.
const SIZE: RangeInclusive<usize> = 16..=256;
/// A reply within this fraction of the time-out widens the window by one. A reply that takes twice that or longer
/// halves the window.
const BRISK: u32 = 4;
/// The most bytes of replies that may be on their way: for a moment, if all are as large as the largest, and on average.
/// By default Redis closes a connection that subscribes when 32 MiB of its replies wait to be sent, or 8 MiB for a minute
/// (`client-output-buffer-limit pubsub`). A reply may take a quarter more memory there than it has bytes.
const AT_ONCE: usize = 20 << 20;
const ON_AVERAGE: usize = 6 << 20;
/// Replies up to this size narrow no window.
const LIGHT: usize = ON_AVERAGE / *SIZE.end();
/// How many replies the average is about.
const RECENT: usize = 32;

/// How many commands of one connection may be without a reply: as many as the server answers in a part of the command
/// time-out. More commands would only queue at the server, or unread in a busy process. Where they wait instead, a
/// caller can still take its command back.
#[derive(Debug)]
pub(super) struct Window {
    size: usize,
    /// When it was last halved. The times of commands sent before say nothing about the narrower window.
    halved: Instant,
}

impl Window {
    pub(super) fn new(now: Instant) -> Self {
        Self { size: *SIZE.start(), halved: now }
    }

    pub(super) fn size(&self) -> usize {
        self.size
    }

    /// Fits it to the time that a command took which was answered at `now`. It widens only for a `crowd`, and by no
    /// more than the number of replies that were `read`, since the size of a reply is not known before.
    pub(super) fn fit(&mut self, sent: Instant, now: Instant, timeout: Duration, crowd: bool, read: usize) {
        let took = now.duration_since(sent);
        if took >= timeout / BRISK * 2 && sent >= self.halved {
            self.size = (self.size / 2).max(*SIZE.start());
            self.halved = now;
        } else if took < timeout / BRISK && crowd {
            self.size = (self.size + 1).min(*SIZE.end()).min(SIZE.start().saturating_add(read)).max(self.size);
        }
    }
}

/// What the sizes of the values that a link carries leave of the windows of its connections. The largest may come again
/// at any time, also on a later connection.
#[derive(Debug, Default)]
pub(super) struct Ceiling {
    largest: AtomicUsize,
    /// The average of the latest replies. Updates at the same time may be lost, which an average bears.
    average: AtomicUsize,
}

impl Ceiling {
    /// The most commands that may be without a reply.
    pub(super) fn get(&self) -> usize {
        let largest = self.largest.load(Ordering::Relaxed);
        if largest <= LIGHT {
            return *SIZE.end();
        }
        let average = self.average.load(Ordering::Relaxed).max(LIGHT);
        (AT_ONCE / largest).min(ON_AVERAGE / average).clamp(1, *SIZE.end())
    }

    /// A value of this size is about to be stored, or was read.
    pub(super) fn carries(&self, bytes: usize) {
        if bytes > LIGHT {
            self.largest.fetch_max(bytes, Ordering::Relaxed);
        }
    }

    /// A reply of this size was read.
    pub(super) fn read(&self, bytes: usize) {
        self.carries(bytes);
        if self.largest.load(Ordering::Relaxed) > LIGHT {
            let average = self.average.load(Ordering::Relaxed);
            self.average.store(average - average / RECENT + bytes / RECENT, Ordering::Relaxed);
        }
    }
}

/// The size of the values in a reply.
pub(super) fn bytes(reply: &Value) -> usize {
    match reply {
        Value::BulkString(bytes) => bytes.len(),
        Value::Array(parts) => parts.iter().map(bytes).sum(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_millis(100);

    /// Answers so many commands after `took`, in a crowd.
    fn answered(window: &mut Window, commands: usize, took: Duration) -> usize {
        for _ in 0..commands {
            let sent = window.halved;
            window.fit(sent, sent + took, TIMEOUT, true, usize::MAX);
        }
        window.size()
    }

    #[test]
    fn a_window_widens_in_a_crowd_that_is_answered_briskly_and_is_halved_when_it_is_not() {
        let mut window = Window::new(Instant::now());
        assert_eq!(window.size(), 16);
        assert_eq!(answered(&mut window, 10, TIMEOUT / 5), 26);
        assert_eq!(answered(&mut window, 1000, TIMEOUT / 5), 256);
        assert_eq!(answered(&mut window, 1, TIMEOUT / 3), 256);
        assert_eq!(answered(&mut window, 1, TIMEOUT / 2), 128);
        assert_eq!(answered(&mut window, 10, TIMEOUT), 16);
        let sent = window.halved;
        window.fit(sent, sent, TIMEOUT, false, usize::MAX);
        assert_eq!(window.size(), 16, "there was no crowd");
    }

    #[test]
    fn a_command_sent_before_the_window_was_halved_does_not_halve_it_again() {
        let mut window = Window::new(Instant::now());
        answered(&mut window, 1000, Duration::ZERO);
        let sent = window.halved;
        window.fit(sent, sent + TIMEOUT, TIMEOUT, true, 0);
        window.fit(sent, sent + TIMEOUT, TIMEOUT, true, 0);
        assert_eq!(window.size(), 128);
    }

    #[test]
    fn a_window_widens_by_no_more_than_the_replies_that_were_read() {
        let mut window = Window::new(Instant::now());
        for (read, size) in [(0, 16), (3, 19), (3, 19), (1000, 29)] {
            for _ in 0..10 {
                window.fit(window.halved, window.halved, TIMEOUT, true, read);
            }
            assert_eq!(window.size(), size, "{read} read");
        }
    }

    #[test]
    fn the_largest_value_bounds_a_burst_however_long_ago_it_was() {
        let ceiling = Ceiling::default();
        let sizes = [(24 << 10, 256), (60 << 10, 256), (100 << 10, 204), (1 << 20, 20), (60 << 10, 20), (100 << 20, 1)];
        for (bytes, most) in sizes {
            ceiling.carries(bytes);
            (0..1000).for_each(|_| ceiling.read(100));
            assert_eq!(ceiling.get(), most, "{bytes} bytes");
        }
    }

    #[test]
    fn the_average_of_the_latest_replies_bounds_what_goes_on() {
        let ceiling = Ceiling::default();
        (0..200).for_each(|_| ceiling.read(1 << 20));
        assert_eq!(ceiling.get(), 6);
        (0..200).for_each(|_| ceiling.read(100));
        assert_eq!(ceiling.get(), 20);
    }

    #[test]
    fn all_values_of_a_reply_count() {
        let text = |bytes| Value::BulkString(vec![0; bytes]);
        let parts = vec![text(20), Value::Int(1), Value::Array(vec![text(3), Value::Nil])];
        assert_eq!((bytes(&text(24)), bytes(&Value::Array(parts)), bytes(&Value::Okay)), (24, 23, 0));
    }
}

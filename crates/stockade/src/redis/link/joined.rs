use redis::{Arg, Cmd, RedisResult, Value};

/// The words before the keys of an EVALSHA: the command, the SHA, and the number of keys.
const HEAD: usize = 3;

/// Calls of one script that may go out as one command. The script gets the keys of all calls, then the arguments that
/// they share, from the first call, then the other arguments of each call. It replies to several calls with an array of
/// the replies, or with one reply that counts for all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Joins {
    pub(crate) op: &'static str,
    pub(crate) keys: usize,
    /// How many arguments, from the first, the calls share.
    pub(crate) shared: usize,
    /// How many other arguments a call has.
    pub(crate) own: usize,
}

impl Joins {
    /// One command for these calls.
    pub(crate) fn join(self, calls: &[Cmd]) -> Cmd {
        let Some(first) = calls.first() else { return Cmd::new() };
        let words = HEAD + self.shared + (self.keys + self.own) * calls.len();
        let bytes = first.args_iter().map(|word| text(&word).len()).sum::<usize>() + 8;
        let mut command = Cmd::with_capacity(words, bytes * calls.len());
        add(&mut command, first, 0, HEAD - 1);
        command.arg(self.keys * calls.len());
        calls.iter().for_each(|call| add(&mut command, call, HEAD, self.keys));
        let arguments = HEAD + self.keys;
        add(&mut command, first, arguments, self.shared);
        calls.iter().for_each(|call| add(&mut command, call, arguments + self.shared, self.own));
        command
    }
}

/// Adds some of the words of another command.
fn add(command: &mut Cmd, of: &Cmd, skip: usize, count: usize) {
    for word in of.args_iter().skip(skip).take(count) {
        command.arg(text(&word));
    }
}

fn text<'a>(word: &Arg<&'a [u8]>) -> &'a [u8] {
    match word {
        Arg::Simple(word) => word,
        _ => &[],
    }
}

/// The reply to each of so many calls that went out as one command.
pub(super) fn split(reply: RedisResult<Value>, calls: usize) -> Vec<Option<RedisResult<Value>>> {
    match reply {
        Ok(Value::Array(replies)) if replies.len() == calls => {
            replies.into_iter().map(|reply| Some(Ok(reply))).collect()
        }
        reply => vec![Some(reply); calls],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(words: &[&str]) -> Cmd {
        words.iter().fold(Cmd::new(), |mut command, word| command.arg(word).take())
    }

    fn texts(command: &Cmd) -> Vec<String> {
        command.args_iter().map(|word| String::from_utf8(text(&word).to_vec()).unwrap()).collect()
    }

    #[test]
    fn one_command_has_the_keys_of_all_calls_and_the_shared_arguments_once() {
        let joins = Joins { op: "script", keys: 2, shared: 1, own: 2 };
        let calls = [
            call(&["EVALSHA", "sha", "2", "k1", "f1", "now", "a1", "b1"]),
            call(&["EVALSHA", "sha", "2", "k2", "f2", "later", "a2", ""]),
        ];
        let joined = "EVALSHA sha 4 k1 f1 k2 f2 now a1 b1 a2 ";
        assert_eq!(texts(&joins.join(&calls)).join(" "), joined);
        assert_eq!(texts(&joins.join(&calls[..1])), texts(&calls[0]));
    }

    #[test]
    fn each_call_has_its_reply_and_a_single_reply_counts_for_all() {
        let split = |reply| split(reply, 2).into_iter().map(|reply| reply.unwrap().unwrap()).collect::<Vec<_>>();
        let each = vec![Value::Int(1), Value::Okay];
        assert_eq!(split(Ok(Value::Array(each.clone()))), each);
        assert_eq!(split(Ok(Value::Int(7))), [Value::Int(7), Value::Int(7)]);
    }
}

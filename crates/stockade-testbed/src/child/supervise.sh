# Runs a server and never lets it outlive its owner.
#
# stdin     a pipe whose other end only the owner holds; end of file means that the owner is gone, however it ended
# stdout    takes one line: the server's process id
# stderr    the server's log
# $1        the private folder, removed once the owner is gone
# $2 …      the server's command line
#
# Only builtins run until the end, so there is no further process that could be left over.

# The owner's end orphans this process group, and an orphaned group with a stopped member is sent SIGHUP by the system.
trap '' HUP

folder=$1
shift
exec 3<&0 </dev/null

"$@" >&2 3<&- &
server=$!
# The owner may be gone already. Then the subshell dies of the closed pipe, and the watch below still kills the server.
(echo "$server")
exec >&2

children_of() {
    if [ -r /proc/self/stat ]; then
        for stat in /proc/[0-9]*/stat; do
            read -r pid _ _ parent _ 2>/dev/null <"$stat" && [ "$parent" = "$1" ] && echo "$pid"
        done 2>/dev/null
    else
        ps -A -o pid=,ppid= | while read -r pid parent; do
            [ "$parent" = "$1" ] && echo "$pid"
        done
    fi
}

# Waits for the owner's end. From then on it can't be called off, so that its exit status says what happened.
(
    while read -r _; do :; done <&3
    trap '' TERM
    # A stopped server starts no more children, so none of them is missed. PostgreSQL's would end by themselves, but
    # not those that were stopped.
    kill -STOP "$server"
    children=$(children_of "$server")
    # shellcheck disable=SC2086 # one word per child
    kill -KILL "$server" $children
    exit 0
) 2>/dev/null &
watch=$!
exec 3<&-

wait "$server"
status=$?
# The shell would report the watch's end into the server's log.
exec 2>/dev/null
# PostgreSQL names its segment of shared memory here. The segment outlives a server that is killed, and a machine has
# only a few.
segment=$(sed -n 7p "$folder/data/postmaster.pid" | { read -r _ id && echo "$id"; })
[ -z "$segment" ] || ipcrm -m "$segment"
kill -TERM "$watch"
if wait "$watch"; then
    rm -rf "$folder"
fi
exit "$status"

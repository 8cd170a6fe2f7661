# Tests large data that a transaction writes before the script that uses them: the script takes the stream entry that the
# transaction has added, and no other one, or removes it again, even if a command of the transaction failed.
use strict;
use warnings;

use Clairon::Test qw(script_text);
use Test::More;

my $store = Clairon::Test::store();
my ($P, $HOUR) = ('c', 3_600_000);
my ($STREAM, $PROGRESS) = ("$P:stream", "$P:progress:s");
my $DATA  = '{"x":"' . 'x' x 1_100_000 . '"}';
my $epoch;

# Begins with an empty store.
sub begin_store
{
    $store->execute('FLUSHALL');
    $epoch = run_script('hello', [$STREAM], $P, 'e' x 16, '', '0-0', 1, 1)->[0];
    run_script('acquire', [$PROGRESS], 'one', 'ours', 1, '', 16, 'db');
    return;
}

sub run_script { my ($name, $keys, @arguments) = @_; return $store->execute('EVAL', script_text($name), scalar @$keys, @$keys, @arguments) }

# Returns the reply of a script, or the error, after these commands in its transaction.
sub run_after
{
    my ($commands, $name, $keys, @arguments) = @_;
    $store->execute('MULTI');
    my $reply = eval {
        $store->execute(@$_) for @$commands;
        $store->execute('EVAL', script_text($name), scalar @$keys, @$keys, @arguments);
        $store->execute('EXEC');
    };
    if (!$reply)
    {
        my $error = $@;
        eval { $store->execute('DISCARD') };
        return "rejected: $error";
    }
    return ref $reply->[-1] eq 'Clairon::Test::Store::Error' ? $reply->[-1][0] : $reply->[-1];
}

# The commands that add a stream entry.
sub entry { my (@fields) = @_; return ([ 'XGROUP', 'SETID', $STREAM, 'clairon', '$' ], [ 'XADD', $STREAM, 'NOMKSTREAM', '*', @fields ]) }

# A notification with acks, an expiration, and a retry limit of 1.
sub route
{
    my ($owner) = @_;
    my $route = "\0" x 104 . 'USER' . 'a.topic';
    substr $route, 7, 1, chr 3;
    substr $route, 15, 1, chr 16;
    substr $route, 61, 1, chr 1;
    substr $route, 65, 1, chr 4;
    substr $route, 67, 1, chr 7;
    return $route;
}

sub id { my ($number) = @_; return sprintf '%08x-0000-8000-8000-000000000000', $number }
sub position { my ($number) = @_; return sprintf '%032x', $number }
sub entries { return map { $_->[0] } @{ $store->execute('XRANGE', $STREAM, '-', '+') } }
sub pending { my ($number) = @_; return $store->execute('HGET', "$P:pending", id($number)) // '' }
my @stored;
sub newest { return (entries())[-1] }

# Stores a large notification. Options: `fails`: other commands than those that add the entry.
sub ingest
{
    my ($number, $audience, $targets, %options) = @_;
    my $open = $options{open} // '';
    my $depends = $options{depends} // '';
    my @fields = (id => id($number), route => route(), data => $DATA, $depends ? (after => $depends) : (), $open ? (open_ended => $open) : ());
    my @record = ($options{kind} // 'A', position($number), id($number), route(), substr($DATA, 0, 100), $audience, scalar @$targets, @$targets);
    return run_after($options{fails} // [ entry(@fields) ], 'ingest', [ $STREAM, $PROGRESS ], $P, $epoch, $options{owner} // 'one',
        $options{after} // '', '', $depends, 1000, '', 'E', length(route()) + length $DATA, $open, @record);
}

begin_store();
my $reply = ingest(1, 'USER', ['u1']);
is_deeply([ @$reply[ 0, 1, 3 ] ], [ position(1), 1, newest() ], 'the script takes the entry that the transaction has added');
is(pending(1), newest() . ' 1 bE', 'its notification is pending');
my ($member) = @{ $store->execute('ZRANGE', "$P:large", 0, -1) };
like($member, qr/ \d{7} \Q${\id(1)}\E -  .*USER.\.topic$/s, 'the index has its id and topic');
@stored = entries();

is_deeply([ @{ ingest(1, 'USER', ['u1']) }[ 1, 2 ] ], [ 0, 1 ], 'a repeated batch is skipped');
is_deeply([ entries() ], \@stored, 'and its entry is removed');
like(ingest(2, 'USER', ['u1'], owner => 'two'), qr/FENCED/, 'another feed is fenced');
like(ingest(2, 'USER', ['u1'], after => position(9)), qr/BEHIND/, 'a batch after a hole is rejected');
is_deeply([ entries() ], \@stored, 'their entries are removed');

# Commands of the transaction that fail while it runs.
$reply = ingest(2, 'USER', ['u1'], fails => [ (entry())[0], [ 'XADD', $STREAM, '0-1', id => 'x' ] ]);
is_deeply([ @$reply[ 1, 4, 5 ] ], [ 0, 0, 0 ], 'without its entry, the record is left to the next call');
is_deeply([ entries() ], \@stored, 'the newest entry of another notification remains');
is(pending(2), '', 'and is not taken for this one');
is(ingest(3, 'USER', ['u1'], after => position(2)), 'WAIT', 'later batches wait');
is_deeply([ entries() ], \@stored, 'their entries are removed too');

# A stream without its group.
$store->execute('XGROUP', 'DESTROY', $STREAM, 'clairon');
like(ingest(2, 'USER', ['u1']), qr/^EPOCH/, 'without the group, a notification is rejected');
is_deeply([ entries() ], \@stored, 'and its entry is removed');
ingest(2, 'USER', ['u1'], fails => [ (entry())[0] ]);
is_deeply([ entries() ], \@stored, 'the entry of another notification remains');
$store->execute('XGROUP', 'CREATE', $STREAM, 'clairon', '$');

# A store that is full.
my $memory = sub { $store->execute('CONFIG', 'SET', 'maxmemory', $_[0]) };
like(ingest(2, 'USER', ['u1'], fails => [ entry(id => id(2), data => $DATA), [ 'CONFIG', 'SET', 'maxmemory', 1 ] ])->[1], qr/^1$/,
    'a store that becomes full within the transaction completes it');
like(ingest(3, 'USER', ['u1']), qr/^rejected: .*OOM/, 'a full store rejects the transaction');
$memory->(0);
is(pending(2), newest() . ' 1 bE', 'only the first one is stored');
is(scalar(entries()), 2, 'with its entry');
is_deeply([ map { $store->execute('EXISTS', "$P:ack:" . id($_)) } 2, 3 ], [ 1, 0 ], 'and its users');
$memory->(0);

# An open-ended audience, and one that is staged.
@stored = entries();
$reply = ingest(4, 'TEAM', ['nobody']);
is_deeply([ @$reply[ 1, 4, 5 ] ], [ 0, 0, 0 ], 'without users, the entry must have the end of the audience');
like($reply->[6], qr/^\d{13}$/, 'the reply has this end');
is_deeply([ entries() ], \@stored, 'the entry without it is removed');
my $end = $reply->[6];
is(ingest(4, 'TEAM', ['nobody'], open => $end)->[1], 1, 'the entry with the end is taken');
like(pending(4), qr{ 0 bE x o$end$}, 'and is open-ended');
is(ingest(5, 'USER', ['u1'], open => $end)->[6], '', 'an entry with users must not have an end');
is(ingest(5, 'USER', ['u1'])->[1], 1, 'and is taken without it');
@stored = entries();
is_deeply([ @{ ingest(6, 'USER', [ map { "m$_" } 1 .. 4001 ]) }[ 1, 4, 5, 6 ] ], [ 0, 0, 1, '' ], 'a large audience is staged first');
is_deeply([ entries() ], \@stored, 'its entry is removed meanwhile');
my ($target, $cursor) = (1, '');
($target, $cursor) = @{ run_script('stage', [$STREAM], $P, $epoch, $PROGRESS, 'one', id(6), $target, $cursor, 'A', 'USER', map { "m$_" } 1 .. 4001) } while $target;
is(ingest(6, 'USER', [ map { "m$_" } 1 .. 4001 ], kind => 'S')->[1], 1, 'then it is stored');

# A clock that was set back.
my $ahead = int(time * 1000) + 1_000_000;
$store->execute('XSETID', $STREAM, "$ahead-1500");
is(ingest(7, 'USER', ['u1'])->[4], 0, 'an entry without a unique score is left to the next call');
is(ingest(7, 'USER', ['u1'])->[1], 1, 'which stores it');
is(newest(), $ahead + 1 . '-1', 'in the next millisecond');

# Dependencies on two other shards.
my $depends = '1:10.2 2:20.3';
is(ingest(8, 'USER', ['u1'], depends => $depends)->[1], 1, 'an entry with dependencies is taken');
is(run_script('follow', [$STREAM], $P)->[4], $depends, 'the index has its dependencies');

# ---- Retries
my @due = ([$STREAM], $P, $HOUR, $HOUR, 1000, 60_000, '');
$store->execute('SADD', "$P:presence:r", 'u1');
$store->execute('ZADD', "$P:relays", int(time * 1000), 'r');
sub due { my (@more) = @_; $store->execute('ZADD', "$P:due", 1, id(1) . ':u1'); return run_script('due', @due, @more) }
my ($first) = pending(1) =~ /^(\S+)/;
my $packed = "\0\2u1";
is_deeply(due()->[9], [ $first, 'entry', 1, $packed ], 'a retry needs its entry, with the number of attempts and the users');
my $bytes = length(route()) + length $DATA;
sub retry
{
    my ($kind, $attempts, $users, @commands) = @_;
    $store->execute('ZADD', "$P:due", 1, id(1) . ':u1');
    return run_after(\@commands, 'due', @due, $first, $kind, $bytes, $attempts, $users, id => id(1), route => route());
}
my @copy = entry(id => id(1), route => route(), data => $DATA, retry_users => $packed);
sub parts { my ($id, @route) = @_; return ([ 'HSET', "$P:error_parts:$id", data => $DATA, route => $route[0] // route() ], [ 'PEXPIRE', "$P:error_parts:$id", 3_600_000 ]) }
my @parts = parts(id(1));
@stored = entries();
is_deeply([ @{ retry('entry', 2, $packed, @copy) }[ 0, 4 ] ], [ 0, 1 ], 'an entry with another number of attempts is not taken');
is_deeply([ entries() ], \@stored, 'and removed');
is_deeply(retry('entry', 1, $packed, $copy[0])->[9], [ $first, 'entry', 1, $packed ], 'without the entry, it is needed again');
$reply = retry('entry', 1, $packed, @copy);
is_deeply([ @$reply[ 0, 1 ] ], [ 1, 1 ], 'the retry is stored');
my ($second) = pending(1) =~ /^(\S+) 1 bE r$/;
is($second, newest(), 'its entry is the pending one');
@stored = entries();
is_deeply([ @{ retry('entry', 1, $packed, @copy) }[ 0, 1 ] ], [ 0, 0 ], 'another relay, which had read the former entry, stores nothing');
is_deeply([ entries() ], \@stored, 'and its entry is removed');
$store->execute('ZREM', "$P:due", id(1) . ':u1');

# Two users, one of whom delays the retry after the entry was read.
my @two = ("$P:due", map { (1, id(9) . ":$_") } qw(u1 u2));
$store->execute('SADD', "$P:presence:r", 'u2');
ingest(9, 'USER', [ 'u1', 'u2' ]);
$store->execute('ZADD', @two);
my ($both) = pending(9) =~ /^(\S+)/;
my $wanted = run_script('due', @due)->[9];
$store->execute('ZADD', "$P:due", int(time * 1000) + 600_000, id(9) . ':u1');
@stored = entries();
sub retry_both
{
    my ($users) = @_;
    return run_after([ entry(id => id(9), route => route(), data => $DATA, retry_users => $users) ],
        'due', @due, $both, 'entry', $bytes, 1, $users, id => id(9), route => route());
}
$reply = retry_both($wanted->[3]);
is_deeply([ $reply->[0], $reply->[9] ], [ 0, [ $both, 'entry', 1, "\0\2u2" ] ], 'an entry for both users is needed for the other one instead');
is_deeply([ entries() ], \@stored, 'and is removed');
is_deeply([ @{ retry_both("\0\2u2") }[ 0, 1 ] ], [ 1, 1 ], 'the other user receives the retry');
is($store->execute('ZSCORE', "$P:due", id(9) . ':u2'), undef, 'and is no longer due');
$store->execute('ZADD', "$P:due", 1, id(9) . ':u1');
($both) = pending(9) =~ /^(\S+)/;
$store->execute('HSET', "$P:ack:" . id(9), 'u2', '1');
is_deeply([ @{ retry_both("\0\2u1\0\2u2") }[ 0, 1 ] ], [ 1, 1 ], 'an acknowledgement of the other user does not matter');

# ---- Expirations
@stored = entries();
$first = $second;
$store->execute('ZADD', "$P:due", 1, id(1) . ':');
is_deeply(run_script('due', @due)->[9], [ $first, 'parts', '', '' ], 'an expiration needs the data in the error log');
$reply = run_after(\@copy, 'due', @due, $first, 'entry', $bytes, 1, $packed, id => id(1), route => route());
is_deeply([ $reply->[3], $reply->[9] ], [ 0, [ $first, 'parts', '', '' ] ], 'a retry does not replace them');
is_deeply([ entries() ], \@stored, 'and is removed');
$reply = run_after([ parts(id(5)) ], 'due', @due, 'x', 'parts', $bytes, '', '', id => id(5), route => route());
is($store->execute('EXISTS', "$P:error_parts:" . id(5)), 0, 'data that are not needed are removed');
is(run_after(\@parts, 'due', @due, $first, 'parts', $bytes, '', '', id => id(1), route => route())->[3], 1, 'with them, the notification expires');
my %parts = @{ $store->execute('HGETALL', "$P:error_parts:" . id(1)) };
is_deeply([ length $parts{data}, @parts{qw(owner bytes)} ], [ length $DATA, 0, $bytes ], 'the error log has the data');
is($store->execute('PTTL', "$P:error_parts:" . id(1)), -1, 'for good');
run_after(\@parts, 'due', @due, $first, 'parts', $bytes, '', '', id => id(1), route => route());
is($store->execute('PTTL', "$P:error_parts:" . id(1)), -1, 'also after another relay has written them again');

# ---- Redrives
my ($error) = map { $_->[0] } @{ $store->execute('XRANGE', "$P:errors", '-', '+') };
my @redrive = ([$STREAM], $P, $error, id(1), route(), '{}', 0, $HOUR, $bytes);
is_deeply(run_script('redrive', @redrive, '', ''), [ $packed, '' ], 'a redrive needs an entry for its users');
@stored = entries();
is_deeply(run_after(\@copy, 'redrive', @redrive, $packed, $end), [ $packed, '' ], 'with another end of the audience, it is needed again');
is_deeply([ entries() ], \@stored, 'the entry is removed');
is(run_after(\@copy, 'redrive', @redrive, $packed, ''), 1, 'with the entry, the notification is redriven');
like(pending(1), qr/^\Q${\newest()}\E 1 bE r$/, 'and pending');
is_deeply($store->execute('KEYS', "$P:error_*"), [], 'the error log is empty');
@stored = entries();
is(run_after(\@copy, 'redrive', @redrive, $packed, ''), -1, 'it is redriven once');
is_deeply([ entries() ], \@stored, 'the entry of a second redrive is removed');

# ---- The retry limit: an entry for a retry cannot be used if it is 0.
begin_store();
my $without_retries = route();
substr $without_retries, 61, 1, "\0";
run_after([ entry(id => id(1), route => $without_retries, data => $DATA) ], 'ingest', [ $STREAM, $PROGRESS ], $P, $epoch, 'one', '', '', '', 1000, '',
    'E', $bytes, '', 'A', position(1), id(1), $without_retries, 'x', 'USER', 1, 'u1');
$store->execute('SADD', "$P:presence:r", 'u1');
$store->execute('ZADD', "$P:relays", int(time * 1000), 'r');
$store->execute('ZADD', "$P:due", 1, id(1) . ':u1');
($first) = pending(1) =~ /^(\S+)/;
@stored = entries();
$reply = run_after([ entry(id => id(1), route => $without_retries, data => $DATA, retry_users => $packed) ],
    'due', @due, $first, 'entry', $bytes, 1, $packed, id => id(1), route => $without_retries);
is_deeply([ $reply->[2], $reply->[9] ], [ 0, [ $first, 'parts', 1, $packed ] ], 'after the last retry, the data are needed in the error log');
is_deeply([ entries() ], \@stored, 'the entry is removed');
is(run_after([ parts(id(1), $without_retries) ], 'due', @due, $first, 'parts', $bytes, 1, $packed, id => id(1), route => $without_retries)->[2],
    1, 'with them, the notification ends');
is(length $store->execute('HGET', "$P:error_parts:" . id(1), 'data'), length $DATA, 'and the error log has them');

# ---- Trims: a large entry, which they must move, and a small one after it
my @trim  = ([$STREAM], $P, 1, $HOUR, 10**9);
my $SMALL = '{"small":1}';
my @moved = entry(id => id(1), route => route(), data => $DATA, retry_users => '');

sub begin_trim
{
    begin_store();
    ingest(1, 'USER', ['u1']);
    run_script('ingest', [ $STREAM, $PROGRESS ], $P, $epoch, 'one', position(1), '', '', 1000, '', 'A', position(2), id(2), route(), $SMALL, 'USER', 1, 'u2');
    ($first) = pending(1) =~ /^(\S+)/;
    select undef, undef, undef, 0.01; # both are older than the retention of 1 ms
    return;
}

sub second_trim { return run_after(\@moved, 'trim', @trim, $first, 'entry', $bytes, '', '', id => id(1), route => route()) }

# Returns the id and the number of bytes of a notification's pending entry.
sub pending_entry
{
    my ($number) = @_;
    my ($entry)  = pending($number) =~ /^(\S+)/ or return;
    my %field    = @{ $store->execute('XRANGE', $STREAM, $entry, $entry)->[0][1] // [] };
    return [ $field{id}, length $field{data} ];
}

begin_trim();
is_deeply(run_script('trim', @trim)->[3], [ $first, 'entry', '', '' ], 'a trim needs the large entry');
run_script('ack', [$STREAM], $P, 'relay', $HOUR, 1, 'u1', 1, id(1));
is(pending(1), '', 'its notification ends meanwhile');
second_trim();
is_deeply(pending_entry(2), [ id(2), length $SMALL ], 'the small notification keeps its own data');
is_deeply([ map { { @{ $_->[1] } }->{id} } @{ $store->execute('XRANGE', $STREAM, '-', '+') } ], [ id(2) ], 'the large entry is removed');

begin_trim();
second_trim();
is_deeply([ map { pending_entry($_) } 1, 2 ], [ [ id(1), length $DATA ], [ id(2), length $SMALL ] ], 'a trim moves both entries');
second_trim();
is_deeply([ map { pending_entry($_) } 1, 2 ], [ [ id(1), length $DATA ], [ id(2), length $SMALL ] ], 'so does one whose entry another relay has moved');

# A pending value that names the entry of another notification.
begin_trim();
$store->execute('HSET', "$P:pending", id(2), pending(1));
$store->execute('SADD', "$P:presence:r", 'u2');
$store->execute('ZADD', "$P:relays", int(time * 1000), 'r');
$store->execute('ZADD', "$P:due", 1, id(2) . ':u2');
$reply = run_after([ entry(id => id(1), route => route(), data => $DATA, retry_users => "\0\2u2") ],
    'due', @due, $first, 'entry', $bytes, 1, "\0\2u2", id => id(1), route => route());
is_deeply([ @$reply[ 0, 3 ] ], [ 0, 1 ], 'a user does not receive the entry of another notification: the pair expires');
is_deeply([ pending(2), pending_entry(1) ], [ '', [ id(1), length $DATA ] ], 'the other notification is unchanged');

# A full store rejects the transaction, although the trim would free memory.
begin_trim();
foreach my $number (3 .. 20)
{
    run_script('ingest', [ $STREAM, $PROGRESS ], $P, $epoch, 'one', position($number - 1), '', '', 1000, '', 'A', position($number), id($number), route(), 'x' x 100_000, 'USER', 1, 'u2');
}
run_script('ack', [$STREAM], $P, 'relay', $HOUR, 1, 'u2', 1, id($_)) foreach 2 .. 20;
select undef, undef, undef, 0.01;
$memory->(1);
like(second_trim(), qr/^rejected: .*OOM/, 'a full store rejects the data of a trim');
$reply = eval { run_script('trim', @trim, $first, 'copy', $bytes, '', '', id => id(1), route => route(), data => $DATA) };
$memory->(0);
is_deeply($reply, [ 20, 0, 0, [] ], 'the script alone trims the stream');
is_deeply([ pending_entry(1), scalar entries() ], [ [ id(1), length $DATA ], 1 ], 'and moves the entry');

done_testing();

# Tests that escalations do not delay retries: not if many are due, and not if each needs a large stream entry.
use strict;
use warnings;

use Clairon::Test qw(script_text);
use JSON ();
use Test::More;

my $HOUR  = 3_600_000;
my $store = Clairon::Test::store();
my %sha   = map { $_ => $store->execute('SCRIPT', 'LOAD', script_text($_)) } qw(hello ingest report due);
sub script { my ($name, $keys, @arguments) = @_; return $store->execute_bytes('EVALSHA', $sha{$name}, scalar @$keys, @$keys, 'c', @arguments) }
sub due { return script('due', ['c:stream'], $HOUR, $HOUR, 100, 1000, 2000, @_) }

my $epoch = script('hello', ['c:stream'], '0123456789abcdef', '', '0-0', 1, 1)->[0];
$store->execute('HSET', 'c:progress:s', 'owner', 'o');
$store->execute('ZADD', 'c:relays', 9_999_999_999_999, 'r');
$store->execute('SADD', 'c:presence:r', 'u');

# Adds a notification with retries, and returns its id.
my ($number, $position) = (0, '');
sub add { my ($escalates) = @_;
    my $id    = sprintf '%08x-0000-8000-8000-%012x', $number, $number;
    my $next  = sprintf '%016x%016x', ++$number, 1;
    my $push  = '{"title":"t"}';
    my $route = "\0" x 104;
    substr $route, 6, 2, $escalates ? "\x01\x83" : "\x00\x03";
    substr $route, 60, 2, "\0\x05";
    substr $route, 96, 4, pack 'N', 1 if $escalates;
    $route .= pack('n', length $push) . $push if $escalates;
    my $data = qq({"metadata":{"id":"$id","priority":"LOW","type":"SYSTEM","emitter":"m","source":"s","topic":"t","operation":"notify"}});
    script('ingest', [ 'c:stream', 'c:progress:s' ], $epoch, 'o', $position, '', '', 1000, '', 'A', $next, $id, $route, $data, 'USER', 1, 'u');
    $position = $next;
    $store->execute('ZADD', 'c:escalations', 1, "1$id:") if $escalates;
    return $id }
sub retry { my ($id) = @_; script('report', ['c:stream'], $HOUR, 100, 1000, $HOUR, 'S', 'u', $id); $store->execute('ZADD', 'c:due', 1, "$id:u"); return }

# Half of the entries are in the index of large ones, with a size that no script copies.
my @escalated = map { add(1) } 1 .. 1100;
my %entry_of  = map { $_->{id} => $_->{entry} } $store->entries('c:stream');
$store->execute('ZADD', 'c:large', 0, sprintf('%20s-%20s %d %s - ', split(/-/, $entry_of{$_}), 2_000_000, $_) . ' x') for @escalated[ 0 .. 599 ];

sub escalations { return $store->execute('ZCARD', 'c:escalations') }
my $reply;
for my $retried (add(0), add(0))
{
    retry($retried);
    $reply = due();
    is($reply->[0], 1, 'a call retries what is due while more escalations than it may process wait for large entries');
    is($reply->[4], 1, 'and the next one follows');
}

# An end waits for the escalation before it.
$store->execute('ZADD', 'c:due', 1, "$escalated[-1]:");
is(due()->[3], 0, 'a notification does not expire before its escalation');

# The caller reads an entry, as the relay does. Its call wants no other one.
my $reads = 0;
while (escalations() && $reads < 700)
{
    my ($entry, $kind) = @{ $reply->[9] };
    if ($entry)
    {
        is($kind, 'route', 'only the route of an entry is read') if $kind ne 'route';
        my ($row) = @{ $store->execute('XRANGE', 'c:stream', $entry, $entry) };
        my %fields = @{ $row->[1] };
        delete $fields{data};
        $store->execute('ZADD', 'c:escalations', 0, "1$escalated[300]:") if $reads == 50; # an earlier one is added meanwhile
        $reply = due($entry, $kind, 2_000_000, '', '', %fields);
        fail('the call with an entry wants no other one') if @{ $reply->[9] };
        $reads++;
    }
    my $retried = $reads % 100 ? undef : add(0);
    retry($retried) if $retried;
    $reply = due();
    is($reply->[0], 1, "after $reads entries, a call still retries") if $retried;
}
is($reads, 600, 'each large entry was read once');
my %count;
$count{ $_->{id} }++ for $store->entries('c:receipts');
is_deeply(\%count, { map { ("$_:u:escalated:1" => 1) } @escalated }, 'each notification has escalated once');
is(scalar(@{ $store->execute('KEYS', 'c:webpush:*') }), scalar(@escalated), 'and has a Web Push');
due();
is($store->execute('HEXISTS', 'c:pending', $escalated[-1]), 0, 'a notification expires after its escalation');
done_testing();

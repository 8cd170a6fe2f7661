# Tests that pending notifications survive trimming, a restart of the store, and disabled retries.
use strict;
use warnings;

use Clairon::Test qw(wait_until of_mark script_text);
use JSON ();
use Test::More;

my $pg = Clairon::Test::postgresql('main');
my $store = Clairon::Test::store(fsync => 'always');
my %quick = ('delivery.ack_timeout' => '200ms', 'delivery.backoff_base' => '50ms', 'delivery.backoff_cap' => '200ms');
my $relay = Clairon::Test::relay($pg, $store, conf => {%quick});

sub notify { my ($audience, $targets, $mark, $more) = @_;
    return $pg->safe_psql('postgres', "SELECT clairon.notify('$audience', '{$targets}', '{\"mark\": \"$mark\"}'"
        . join(', ', '', $more || ()) . ')') }

my $STREAM; # the streams of u1's shard and of u2's shard
sub run { my ($text, @arguments) = @_; return $store->execute('EVAL', $text, 1, $STREAM, $STREAM =~ s/:stream$//r, @arguments) }
sub script { my ($name, @arguments) = @_; return run(script_text($name), @arguments) }

# Trimming removes notifications older than the retention. Pending notifications stay and do not block the trimming of
# other notifications.
my $waiting = notify('USER', 'u1', 'waits', 'ack_required => true');
notify('USER', 'u1', 'plain', '') for 1 .. 300;
wait_until('all notifications are stored', sub { $store->entries == 301 });
my ($first) = map { $_->{entry} } $store->entries;
($STREAM) = map { $_->{stream} } $store->entries;
is(script('trim', 3_600_000)->[0], 0, 'stream entries younger than the retention are not trimmed');
is(scalar($store->entries), 301, 'the stream is unchanged');
wait_until('a millisecond has passed', sub { my ($s, $us) = @{ $store->execute('TIME') };
    $s * 1000 + $us / 1000 > 1 + ($store->entries)[-1]{entry} =~ s/-.*//r });
# A full store can be trimmed, although trimming first adds pending notifications again at the end of the stream.
$store->execute('CONFIG', 'SET', 'maxmemory', 1);
script('trim', 1);
script('trim', 1);
$store->execute('CONFIG', 'SET', 'maxmemory', 0);
my @left = $store->entries;
cmp_ok(scalar(@left), '<', 150, 'older stream entries are trimmed');
my ($kept) = reverse grep { $_->{id} eq $waiting } @left;
ok($kept && $kept->{entry} ne $first, 'a pending notification moves to the end of the stream');
is($store->execute('XPENDING', $STREAM, 'clairon', '-', '+', 10)->[0][0], $kept->{entry},
    'the new stream entry is pending');
is(JSON::decode_json($kept->{data})->{routing}{retry}{attempts}, 0, 'a moved stream entry keeps its attempt number');
my $one = $relay->client('u1');
$one->run_until('the pending notification arrives', sub { of_mark($one, 'waits') });
is(scalar(of_mark($one, 'plain')), 0, 'a new connection receives only the pending notification');
$one->ack($waiting);
wait_until('the notification is acknowledged', sub { $store->pending == 0 });

# A moved stream entry is not delivered again to a connected session.
my $held = notify('USER', 'u1', 'held', "ack_required => true, ack_timeout => '1 hour'");
$one->run_until('the notification arrives', sub { of_mark($one, 'held') });
script('trim', -1000);
my $next = notify('USER', 'u1', 'next', '');
$one->run_until('the next notification arrives', sub { of_mark($one, 'next') });
is(scalar(of_mark($one, 'held')), 1, 'moving a stream entry does not deliver it');
$one->ack($held);
wait_until('the notification is acknowledged', sub { $store->pending == 0 });

# With retry.enabled false a notification is delivered once, is never due, and ignores nacks. Only the API can set
# this, so the test edits the stored entry and removes the flag.
$one->close;
my $once = notify('USER', 'u1', 'once', "ack_required => true, ttl => '1 hour'");
wait_until('the notification is stored', sub { $store->pending == 1 });
my ($entry) = grep { $_->{id} eq $once } $store->entries;
my $route = $entry->{route};
substr($route, 7, 1) = chr(ord(substr $route, 7, 1) & ~2);
utf8::upgrade($route);
# A route is binary, so a script receives it in hex.
my $entry_id = $store->execute('EVAL', q{
    local route = ARGV[2]:gsub('..', function(hex) return string.char(tonumber(hex, 16)) end)
    return redis.call('XADD', KEYS[1], '*', 'id', ARGV[1], 'route', route, 'data', ARGV[3])},
    1, $STREAM, $once, unpack('H*', do { my $bytes = $route; utf8::downgrade($bytes); $bytes }), $entry->{data});
$store->execute('HSET', $store->of($once, 'pending'), $once, "$entry_id 1 b- x");
$store->execute('XCLAIM', $STREAM, 'clairon', 'relay', 0, $entry_id, 'FORCE', 'JUSTID');
$store->execute('XACK', $STREAM, 'clairon', $entry->{entry});
$one = $relay->client('u1');
$one->run_until('the notification arrives', sub { of_mark($one, 'once') });
$one->send({ t => 'nack', ids => [$once], delay => 0 });
my $other = notify('USER', 'u1', 'other', 'ack_required => true, retry_limit => 1');
$one->run_until('the other notification is in the error log', sub { $store->error_count == 1 });
is(scalar(of_mark($one, 'once')), 1, 'with retries disabled, the notification is delivered once');
is($store->execute('ZSCORE', $store->of($once, 'due'), "$once:u1"), undef, 'the notification is never due');
is($store->execute('HGET', $store->of($once, "ack:$once"), 'u1'), 0, 'the notification stays pending until it expires');
$one->ack($once);
wait_until('the notification is acknowledged', sub { $store->pending == 0 });

# The store restarts while retries are due. Another relay stores acks, but this relay misses their ack events.
my $second = Clairon::Test::relay($pg, $store, conf => {%quick});
my $narrow = $second->client('u2', win => 2);
my @ids = map { notify('USER', 'u2', "n$_", 'ack_required => true, retry_limit => 1000') } 1 .. 4;
$narrow->run_until('the in-flight window is full', sub { of_mark($narrow, 'n2') });
wait_until('the notifications are due', sub { 2 == grep { /u2$/ } map { @{ $store->execute('ZRANGE', $_, 0, -1) } } $store->keys('due') });
$store->restart;
my $before = of_mark($narrow, 'n1');
$narrow->run_until('a retry arrives after the restart', sub { of_mark($narrow, 'n1') > $before });
pass('due retries survive a restart of the store');
# The transaction that stores the acks also removes this relay's ack events.
$STREAM = $store->of($ids[0], 'stream');
run(script_text('ack') =~ s/^(?=return )/call('DEL', prefix .. ':ack_events')\n/mr,
    'another', 1000, 1, 'u2', 2, @ids[ 0, 1 ]);
$store->restart;
$narrow->run_until('the other notifications arrive', sub { of_mark($narrow, 'n3') && of_mark($narrow, 'n4') });
pass('missed ack events do not block the in-flight window');
$narrow->ack(@ids);
wait_until('the notification is acknowledged', sub { $store->pending == 0 });

done_testing();

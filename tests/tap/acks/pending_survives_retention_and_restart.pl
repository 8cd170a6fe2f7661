# Does what waits for an ack survive the retention, the store's restart and retries that are switched off?
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

my $STREAM; # of what is for u1, and then for u2
sub run { my ($text, @arguments) = @_; return $store->execute('EVAL', $text, 1, $STREAM, $STREAM =~ s/:stream$//r, @arguments) }
sub script { my ($name, @arguments) = @_; return run(script_text($name), @arguments) }

# Trimming: what is older than the retention goes, what waits stays and holds nothing back.
my $waiting = notify('USER', 'u1', 'waits', 'ack_required => true');
notify('USER', 'u1', 'plain', '') for 1 .. 300;
wait_until('all are stored', sub { $store->entries == 301 });
my ($first) = map { $_->{entry} } $store->entries;
($STREAM) = map { $_->{stream} } $store->entries;
is(script('trim', 3_600_000)->[0], 0, 'what is younger than the retention stays');
is(scalar($store->entries), 301, 'all of it');
wait_until('a millisecond is over', sub { my ($s, $us) = @{ $store->execute('TIME') };
    $s * 1000 + $us / 1000 > 1 + ($store->entries)[-1]{entry} =~ s/-.*//r });
# A full store is let go of too, though what waits has to be added at the end first.
$store->execute('CONFIG', 'SET', 'maxmemory', 1);
script('trim', 1);
script('trim', 1);
$store->execute('CONFIG', 'SET', 'maxmemory', 0);
my @left = $store->entries;
cmp_ok(scalar(@left), '<', 150, 'what is older goes');
my ($kept) = reverse grep { $_->{id} eq $waiting } @left;
ok($kept && $kept->{entry} ne $first, 'what waits moves to the end');
is($store->execute('XPENDING', $STREAM, 'clairon', '-', '+', 10)->[0][0], $kept->{entry}, 'and is pending there');
is(JSON::decode_json($kept->{data})->{routing}{retry}{attempts}, 0, 'without an attempt used up');
my $one = $relay->client('u1');
$one->run_until('what waits', sub { of_mark($one, 'waits') });
is(scalar(of_mark($one, 'plain')), 0, 'its user is shown it at connect, and nothing else');
$one->ack($waiting);
wait_until('acked', sub { $store->pending == 0 });

# A moved entry of someone who is connected is not shown for that.
my $held = notify('USER', 'u1', 'held', "ack_required => true, retry_limit => 0");
$one->run_until('it', sub { of_mark($one, 'held') });
$store->execute('ZADD', $store->of($held, 'due'), 1e15, "$held:u1");
script('trim', -1000);
my $next = notify('USER', 'u1', 'next', '');
$one->run_until('the next', sub { of_mark($one, 'next') });
is(scalar(of_mark($one, 'held')), 1, 'moving an entry shows it to nobody');
$one->ack($held);
wait_until('acked', sub { $store->pending == 0 });

# retry.enabled false: shown, never due, and a nack changes nothing. Only the API can say so, so the entry is
# made by hand: as stored, with the flag taken out.
$one->close;
my $once = notify('USER', 'u1', 'once', "ack_required => true, ttl => '1 hour'");
wait_until('it is stored', sub { $store->pending == 1 });
my ($entry) = grep { $_->{id} eq $once } $store->entries;
my $route = $entry->{route};
substr($route, 7, 1) = chr(ord(substr $route, 7, 1) & ~2);
utf8::upgrade($route);
# The bytes of a route are no text: by a script that takes them in hex.
my $place = $store->execute('EVAL', q{
    local route = ARGV[2]:gsub('..', function(hex) return string.char(tonumber(hex, 16)) end)
    return redis.call('XADD', KEYS[1], '*', 'id', ARGV[1], 'route', route, 'data', ARGV[3])},
    1, $STREAM, $once, unpack('H*', do { my $bytes = $route; utf8::downgrade($bytes); $bytes }), $entry->{data});
$store->execute('HSET', $store->of($once, 'pending'), $once, "$place 1 - 2");
$store->execute('XCLAIM', $STREAM, 'clairon', 'relay', 0, $place, 'FORCE', 'JUSTID');
$store->execute('XACK', $STREAM, 'clairon', $entry->{entry});
$one = $relay->client('u1');
$one->run_until('it', sub { of_mark($one, 'once') });
$one->send({ t => 'nack', ids => [$once], delay => 0 });
my $other = notify('USER', 'u1', 'other', 'ack_required => true, retry_limit => 1');
$one->run_until('the other is given up', sub { $store->execute('XLEN', 'clairon:errors') == 1 });
is(scalar(of_mark($one, 'once')), 1, 'with retries switched off it is shown once');
is($store->execute('ZSCORE', $store->of($once, 'due'), "$once:u1"), undef, 'and never due');
is($store->execute('HGET', $store->of($once, "ack:$once"), 'u1'), 0, 'but waited for until it expires');
$one->ack($once);
wait_until('acked', sub { $store->pending == 0 });

# The store restarts while work is due, and acks of another relay come while the reader is away.
my $second = Clairon::Test::relay($pg, $store, conf => {%quick});
my $narrow = $second->client('u2', win => 2);
my @ids = map { notify('USER', 'u2', "n$_", 'ack_required => true, retry_limit => 1000') } 1 .. 4;
$narrow->run_until('as many as the window holds', sub { of_mark($narrow, 'n2') });
wait_until('they are due', sub { 2 == grep { /u2$/ } map { @{ $store->execute('ZRANGE', $_, 0, -1) } } $store->keys('due') });
$store->restart;
my $had = of_mark($narrow, 'n1');
$narrow->run_until('a retry after the restart', sub { of_mark($narrow, 'n1') > $had });
pass('what is due survives a restart of the store');
# Acks that this relay hears nothing of: the receipt goes in the same step.
$STREAM = $store->of($ids[0], 'stream');
run(script_text('ack') =~ s/^(?=return )/call('DEL', prefix .. ':receipts')\n/mr,
    'another', 1000, 1, 'u2', 2, @ids[ 0, 1 ]);
$store->restart;
$narrow->run_until('the others', sub { of_mark($narrow, 'n3') && of_mark($narrow, 'n4') });
pass('a window lets go of what was acked unheard');
$narrow->ack(@ids);
wait_until('acked', sub { $store->pending == 0 });

done_testing();

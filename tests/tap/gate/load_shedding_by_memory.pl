# Tests that a relay short of memory drops only notifications that may be dropped, announces the gap, and keeps cursors
# valid.
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use Clairon::Test::EventStream;
use Clairon::Test::SheddableTables qw(insert names has);
use Clairon::Test::RawSocket;
use JSON ();
use Socket qw(SOL_SOCKET SO_RCVBUF);
use Test::More;

my $pg = Clairon::Test::postgresql('main');
Clairon::Test::SheddableTables::create($pg, [ bulk => q{'USER', '=slow', type => 'NOTIFICATION'} ]);
my $store = Clairon::Test::store();
my %quiet = ('gate.ping' => '10m', 'gate.slow_age' => '10m', 'gate.slow_bytes' => '1000MB');
# One relay becomes short of memory, the other does not.
my ($short, $other) = map { Clairon::Test::relay($pg, $store, conf => { %quiet, 'delivery.shed_bytes' => $_ }) } '200kB', 0;

sub shedding { return $short->metric('clairon_shedding') }

# Creates a client that does not read, so that its notifications accumulate.
my $slow = Clairon::Test::RawSocket->open($short);
setsockopt $slow->{link}, SOL_SOCKET, SO_RCVBUF, 131072 or die "setsockopt: $!\n";
$slow->send_json({ t => 'connect', r => 1, token => Clairon::Test::token(sub => 'slow'), topics => ['postgres.bulk'] });
$slow->wait_message('connected');
my $live    = $short->client('live');
my $narrow  = $short->client('narrow', topics => ['postgres.noted']);
my $sse     = Clairon::Test::EventStream->open($short, 'sse');
my $elsewhere = $other->client('live');
insert(qw(low normal));
$_->wait_notifications(2) for $live, $elsewhere;
is(shedding(), 0, 'no notification is dropped while memory is sufficient');
my $bulk = 0;
wait_until('the relay is short of memory', sub {
    $bulk += 20; # below the queue limit, so that the relay does not close the connection
    $pg->safe_psql('postgres', "INSERT INTO bulk SELECT i, repeat('x', 10000) FROM generate_series($bulk - 19, $bulk) i");
    return shedding();
});
wait_until('dropping LOW is not sufficient', sub { shedding() == 2 });

my $first = insert(qw(low normal high noted needed));
my $last  = insert(qw(low normal high noted needed));
$live->run_until('the rows that are never dropped arrive', sub { has($live, "noted $last") && has($live, "needed $last") && has($live, "high $last") });
is(names($live), "high $first high $last low 1 needed $first needed $last normal 1 noted $first noted $last",
    'only LOW and NORMAL of type REALTIME are dropped');
$elsewhere->wait_notifications(12);
is($live->gaps, '', 'no gap is announced during the shortage');
is($short->metric('clairon_shed_total{class="low"}') >= 2, 1, 'dropped LOW notifications are counted');
is($short->metric('clairon_shed_total{class="normal"}') >= 2, 1, 'dropped NORMAL notifications are counted');
like($short->log_text, qr/short of CPU or memory/, 'the log reports the load shedding');

# A client that reconnects to another relay during the shortage loses no notification.
my $moved = $other->client('live', pos => $live->pos);
is($moved->wait_for('connected')->{resumed}, JSON::true, 'the client resumes on the other relay');
$moved->run_until('the dropped rows arrive', sub { has($moved, "low $last") && has($moved, "normal $last") });
ok(has($moved, "low $first") && has($moved, "normal $first"), 'the client receives all dropped rows from the other relay');
is($moved->gaps, '', 'the client receives no gap from the other relay');
# Polls are exempt from load shedding, because they are the fallback.
my ($status, $body) = $short->get('/v1/poll?wait=0&pos=' . $live->pos,
    Authorization => 'Bearer ' . Clairon::Test::token(sub => 'live'));
like($body, qr/"source":"low"/, 'a poll returns notifications that sockets do not receive');

# The slow client reads again, which ends the shortage.
my $all = 0;
while ($all < $bulk) { $all++ if $slow->wait_message('msg') }
wait_until('the shortage has ended', sub { shedding() == 0 });
my $gap = $live->wait_for('gap');
is($gap->{why}, 'shed', 'a client that missed rows receives the gap after the shortage');
is($sse->wait_message('gap')->{why}, 'shed', 'an SSE client that missed rows receives the gap');
my $id = insert(qw(low normal noted));
$live->run_until('a new row arrives', sub { has($live, "noted $id") });
ok(has($live, "low $id") && has($live, "normal $id"), 'a client that missed rows receives all later rows');
$narrow->run_until('a new row arrives', sub { has($narrow, "noted $id") });
is($narrow->gaps, '', 'a client that missed no rows receives no gap');
is($live->gaps, 'shed', 'a client that missed rows receives one gap');
like($short->log_text, qr/gap announced" dropped=\d+ clients=2\b/,
    'the log contains the number of dropped notifications');

# The end of the gap is a valid cursor.
my $reconnected = $short->client('live', pos => $gap->{to});
is($reconnected->wait_for('connected')->{resumed}, JSON::true, 'a client resumes from the cursor of the gap');
$reconnected->run_until('later rows arrive', sub { has($reconnected, "noted $id") });
ok(!has($reconnected, "low $last"), 'the cursor of the gap is after the lost rows');
is($_->stop, 0, 'SIGTERM ends a relay with status 0') for $short, $other;

done_testing();

# Short of memory, does a relay leave out what may be left out and nothing else, tell of it, and lose nothing that a position promises?
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
# One runs short, the other does not.
my ($short, $other) = map { Clairon::Test::relay($pg, $store, conf => { %quiet, 'delivery.shed_bytes' => $_ }) } '200kB', 0;

sub shedding { return $short->metric('clairon_shedding') }

# A reader that reads nothing: what is for it alone piles up.
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
is(shedding(), 0, 'nothing is left out as long as there is room');
my $bulk = 0;
wait_until('the relay is short of memory', sub {
    $bulk += 20; # not more than its queue holds: then nothing is added to what its socket left of that
    $pg->safe_psql('postgres', "INSERT INTO bulk SELECT i, repeat('x', 10000) FROM generate_series($bulk - 19, $bulk) i");
    return shedding();
});
wait_until('LOW alone does not help', sub { shedding() == 2 });

my $first = insert(qw(low normal high noted needed));
my $last  = insert(qw(low normal high noted needed));
$live->run_until('what is never left out', sub { has($live, "noted $last") && has($live, "needed $last") && has($live, "high $last") });
is(names($live), "high $first high $last low 1 needed $first needed $last normal 1 noted $first noted $last",
    'LOW and NORMAL of type REALTIME are left out, and nothing else');
$elsewhere->wait_notifications(12);
is($live->gaps, '', 'of which clients are told once it is over');
is($short->metric('clairon_shed_total{class="low"}') >= 2, 1, 'LOW lines are counted');
is($short->metric('clairon_shed_total{class="normal"}') >= 2, 1, 'and NORMAL ones');
like($short->log_text, qr/short of CPU or memory/, 'the log says so');

# Who leaves amid it goes on elsewhere without a loss.
my $moved = $other->client('live', pos => $live->pos);
is($moved->wait_for('connected')->{resumed}, JSON::true, 'who leaves meanwhile resumes elsewhere');
$moved->run_until('what was left out', sub { has($moved, "low $last") && has($moved, "normal $last") });
ok(has($moved, "low $first") && has($moved, "normal $first"), 'and has all that was left out');
is($moved->gaps, '', 'so that nothing is to be told');
# Who polls is not shed: that is the way to fall back to.
my ($status, $body) = $short->get('/v1/poll?wait=0&pos=' . $live->pos,
    Authorization => 'Bearer ' . Clairon::Test::token(sub => 'live'));
like($body, qr/"source":"low"/, 'a poll gets what sockets do not');

# The reader reads on: all is well again.
my $all = 0;
while ($all < $bulk) { $all++ if $slow->wait_message('msg') }
wait_until('there is room again', sub { shedding() == 0 });
my $gap = $live->wait_for('gap');
is($gap->{why}, 'shed', 'then the client is told of the gap');
is($sse->wait_message('gap')->{why}, 'shed', 'on SSE too');
my $id = insert(qw(low normal noted));
$live->run_until('it goes on', sub { has($live, "noted $id") });
ok(has($live, "low $id") && has($live, "normal $id"), 'and gets all again');
$narrow->run_until('it goes on', sub { has($narrow, "noted $id") });
is($narrow->gaps, '', 'who missed nothing is told nothing');
is($live->gaps, 'shed', 'who did, once');
like($short->log_text, qr/\d+ lines were left out, 2 clients are told/, 'the log says how many');

# The gap's end is a place to go on from.
my $back = $short->client('live', pos => $gap->{to});
is($back->wait_for('connected')->{resumed}, JSON::true, 'its end is a position');
$back->run_until('what came after', sub { has($back, "noted $id") });
ok(!has($back, "low $last"), 'behind what was lost');
is($_->stop, 0, 'SIGTERM ends a relay in good order') for $short, $other;

done_testing();

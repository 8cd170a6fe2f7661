# Short of CPU, does a relay leave out what may be left out and nothing else, and tell of it?
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use Clairon::Test::SheddableTables qw(insert names has);
use POSIX ();
use Test::More;

my $pg = Clairon::Test::postgresql('main');
Clairon::Test::SheddableTables::create($pg);
my $store = Clairon::Test::store();
my $relay = Clairon::Test::relay($pg, $store,
    conf => { 'gate.ping' => '10m', 'delivery.shed_lag' => '100ms', 'delivery.shed_bytes' => 0 });

# A machine that gives the relay a tenth of its time: it is stopped again and again, until told to end.
my $robber;
sub rob
{
    my ($pid) = @_;
    my $parent = $$;
    $robber = fork // die "could not fork: $!";
    return if $robber;
    my $over = 0;
    $SIG{TERM} = sub { $over = 1 };
    while (!$over && getppid() == $parent)
    {
        kill STOP => $pid;
        select undef, undef, undef, 0.4;
        kill CONT => $pid;
        select undef, undef, undef, 0.04;
    }
    POSIX::_exit(0);
}
sub give_back { local $?; kill TERM => $robber; return waitpid $robber, 0 }
END { give_back() if $robber && kill 0 => $robber }

my $live   = $relay->client('live');
my $narrow = $relay->client('narrow', topics => ['postgres.noted']);
insert(qw(low normal high noted needed));
$live->wait_notifications(5);
rob($relay->pid);
wait_until('the relay finds itself short of CPU, and LOW alone does not help',
    sub { ($relay->metric('clairon_shedding') // 0) == 2 });

my $first = insert(qw(low normal high noted needed));
my $last  = insert(qw(low normal high noted needed));
$live->run_until('what is never left out',
    sub { has($live, "noted $last") && has($live, "needed $last") && has($live, "high $last") });
is(names($live), join(' ', 'high 1', "high $first", "high $last", 'low 1', 'needed 1', "needed $first",
    "needed $last", 'normal 1', 'noted 1', "noted $first", "noted $last"),
    'LOW and NORMAL of type REALTIME are left out, and nothing else');
is($live->gaps, '', 'of which a client is told once it is over');
like($relay->log_text, qr/short of CPU or memory: lines wait \d+ ms/, 'the log says so');
cmp_ok($relay->metric("clairon_shed_total{class=\"$_\"}"), '>=', 2, "what is left out of $_ is counted")
  for qw(low normal);

give_back();
wait_until('all is well again', sub { $relay->metric('clairon_shedding') == 0 });
my $gap = $live->wait_for('gap');
is($gap->{why}, 'shed', 'then the client is told of the gap');
my $id = insert(qw(low normal noted));
$live->run_until('it goes on', sub { has($live, "noted $id") });
ok(has($live, "low $id") && has($live, "normal $id"), 'and gets all again');
$narrow->run_until('it goes on', sub { has($narrow, "noted $id") });
is($narrow->gaps, '', 'who missed nothing is told nothing');
is($live->gaps, 'shed', 'who did, once');
my $back = $relay->client('live', pos => $gap->{to});
$back->run_until('what came after', sub { has($back, "noted $id") });
ok(!has($back, "low $last"), 'the gap ends behind what was lost');

# What needs an ack was shown as ever.
$live->ack(map { $_->{metadata}{id} } grep { $_->{metadata}{source} eq 'needed' } $live->notifications);
wait_until('its acks are taken', sub { ($relay->metric('clairon_store_acks_total') // 0) >= 3 });
is($relay->stop, 0, 'SIGTERM ends the relay in good order');

done_testing();

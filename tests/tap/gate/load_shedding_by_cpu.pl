# Tests that a relay short of CPU drops only notifications that may be dropped, and announces the gap.
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

# Limits the relay to a tenth of the CPU: a separate process periodically pauses the relay, until that process is terminated.
my $cpu_hog;
sub limit_cpu
{
    my ($pid) = @_;
    my $parent = $$;
    $cpu_hog = fork // die "could not fork: $!";
    return if $cpu_hog;
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
sub restore_cpu { local $?; kill TERM => $cpu_hog; return waitpid $cpu_hog, 0 }
END { restore_cpu() if $cpu_hog && kill 0 => $cpu_hog }

my $live   = $relay->client('live');
my $narrow = $relay->client('narrow', topics => ['postgres.noted']);
insert(qw(low normal high noted needed));
$live->wait_notifications(5);
limit_cpu($relay->pid);
wait_until('dropping LOW is not sufficient',
    sub { ($relay->metric('clairon_shedding') // 0) == 2 });

my $first = insert(qw(low normal high noted needed));
my $last  = insert(qw(low normal high noted needed));
$live->run_until('the rows that are never dropped arrive',
    sub { has($live, "noted $last") && has($live, "needed $last") && has($live, "high $last") });
is(names($live), join(' ', 'high 1', "high $first", "high $last", 'low 1', 'needed 1', "needed $first",
    "needed $last", 'normal 1', 'noted 1', "noted $first", "noted $last"),
    'only LOW and NORMAL of type REALTIME are dropped');
is($live->gaps, '', 'no gap is announced during the shortage');
like($relay->log_text, qr/short of CPU or memory: .* delay_ms=\d+/, 'the log reports the load shedding');
cmp_ok($relay->metric("clairon_shed_total{class=\"$_\"}"), '>=', 2, "dropped $_ notifications are counted")
  for qw(low normal);

restore_cpu();
wait_until('the shortage has ended', sub { $relay->metric('clairon_shedding') == 0 });
my $gap = $live->wait_for('gap');
is($gap->{why}, 'shed', 'a client that missed rows receives the gap after the shortage');
my $id = insert(qw(low normal noted));
$live->run_until('a new row arrives', sub { has($live, "noted $id") });
ok(has($live, "low $id") && has($live, "normal $id"), 'a client that missed rows receives all later rows');
$narrow->run_until('a new row arrives', sub { has($narrow, "noted $id") });
is($narrow->gaps, '', 'a client that missed no rows receives no gap');
is($live->gaps, 'shed', 'a client that missed rows receives one gap');
my $reconnected = $relay->client('live', pos => $gap->{to});
$reconnected->run_until('later rows arrive', sub { has($reconnected, "noted $id") });
ok(!has($reconnected, "low $last"), 'the gap ends after the lost rows');

# Notifications with ack_required are never dropped.
$live->ack(map { $_->{metadata}{id} } grep { $_->{metadata}{source} eq 'needed' } $live->notifications);
wait_until('the acks are stored', sub { ($relay->metric('clairon_store_acks_total') // 0) >= 3 });
is($relay->stop, 0, 'SIGTERM ends the relay with status 0');

done_testing();

# Tests that the relay notifies a service manager as sd_notify(3) requires, and replaces a stuck worker.
use strict;
use warnings;

use Clairon::Test qw(wait_until scratch children);
use IO::Socket::UNIX;
use Socket qw(SOCK_DGRAM);
use Test::More;

my $path    = scratch() . '/notify';
my $manager = IO::Socket::UNIX->new(Type => SOCK_DGRAM, Local => $path) or die "no socket: $!";
$manager->blocking(0);
my @datagrams;

sub listen_to
{
    while (defined $manager->recv(my $datagram, 4096)) { push @datagrams, $datagram }
    return @datagrams;
}

# Returns the datagrams up to the first match; later calls return the following datagrams.
sub datagrams_until
{
    my ($pattern) = @_;
    wait_until("a datagram matches $pattern", sub { grep { /$pattern/ } listen_to() });
    my @before;
    while (defined(my $one = shift @datagrams))
    {
        push @before, $one;
        last if $one =~ $pattern;
    }
    return @before;
}

my $pg    = Clairon::Test::postgresql('main');
my $store = Clairon::Test::store();

# The relays that start from now on use sd_notify.
$ENV{NOTIFY_SOCKET} = $path;
$ENV{WATCHDOG_USEC} = 4_000_000;
my $relay = Clairon::Test::relay($pg, $store, wait => 0, conf => { 'gate.notice' => '1s', 'gate.drain' => '1s' });

is_deeply([ datagrams_until(qr/READY/) ], ['READY=1'], 'READY=1 is sent once');
wait_until('the relay serves requests once its store is connected', sub { ($relay->get('/healthz'))[0] == 200 });
pass('the relay serves requests once its store is connected');
datagrams_until(qr/^WATCHDOG=1$/);
datagrams_until(qr/^WATCHDOG=1$/);
pass('watchdog datagrams arrive repeatedly');
kill HUP => $relay->pid;
like((datagrams_until(qr/RELOADING/))[-1], qr/^RELOADING=1\nMONOTONIC_USEC=\d+$/, 'a reload is announced');
is((datagrams_until(qr/READY/))[-1], 'READY=1', 'the end of a reload is announced');
is($relay->stop, 0, 'the stopped relay drains');
is((datagrams_until(qr/STOPPING/))[-1], "STOPPING=1\nEXTEND_TIMEOUT_USEC=12000000",
    'the stop is announced with its timeout');

$relay->configure('gate.notice' => '0s', 'gate.drain' => '2s');
# WATCHDOG_PID is another process, whose watchdog interval passes many times in this test.
@ENV{qw(WATCHDOG_PID WATCHDOG_USEC)} = ($$, 2000);
$relay->start;
datagrams_until(qr/READY/);
$relay->wait_ready;
$relay->stop;
ok(!grep({ /WATCHDOG/ } datagrams_until(qr/STOPPING/)), 'the watchdog of another process is ignored');
delete $ENV{WATCHDOG_PID};
$ENV{WATCHDOG_USEC} = 4_000_000;

# With several workers, only one process sends datagrams.
$relay->configure('gate.workers' => 2);
$relay->start;
datagrams_until(qr/READY/);
$relay->wait_ready;
datagrams_until(qr/^WATCHDOG=1$/);
my @workers = wait_until('both workers run', sub { my @all = children($relay->pid); @all == 2 ? \@all : undef })->@*;
kill STOP => $workers[1];
$relay->wait_for_log(qr/worker does not respond, killing it" pid=$workers[1].*worker was killed, starting another" pid=$workers[1] signal=9/s);
wait_until('a new worker runs', sub { 2 == grep { $_ != $workers[1] } children($relay->pid) });
ok(scalar(grep { $_ == $workers[0] } children($relay->pid)), 'only the stuck worker is replaced');
# All workers are paused, as on a suspended machine, for longer than a worker's watchdog interval.
@workers = children($relay->pid);
kill STOP => $relay->pid, @workers;
my $until = time + 6;
wait_until('the watchdog interval has passed', sub { time > $until });
listen_to();
@datagrams = ();
kill CONT => $relay->pid;
datagrams_until(qr/^WATCHDOG=1$/);
kill CONT => @workers;
$relay->wait_ready;
is_deeply([ children($relay->pid) ], \@workers, 'workers that were paused together are not replaced');
kill HUP => $relay->pid;
datagrams_until(qr/RELOADING/);
datagrams_until(qr/READY/);
$relay->stop;
is_deeply([ grep { !/^WATCHDOG=1$/ } datagrams_until(qr/STOPPING/) ], ["STOPPING=1\nEXTEND_TIMEOUT_USEC=12000000"],
    'with several workers, only the supervisor sends datagrams');

# The relay runs without a service manager.
$ENV{NOTIFY_SOCKET} = scratch() . '/nobody';
$relay->start;
$relay->wait_ready;
$relay->wait_for_log(qr/could not notify the service manager/);
pass('a missing service manager is logged and does not stop the relay');
$relay->stop;

$ENV{NOTIFY_SOCKET} = '@clairon-test-' . $$;
my $abstract = IO::Socket::UNIX->new(Type => SOCK_DGRAM, Local => "\0clairon-test-$$") or die "no socket: $!";
$manager = $abstract;
$manager->blocking(0);
$relay->start;
datagrams_until(qr/READY/);
pass('the relay also notifies an abstract socket');
$relay->stop;

done_testing();

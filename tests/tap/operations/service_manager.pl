# Does a service manager hear what sd_notify(3) promises it, and is a stuck worker replaced?
use strict;
use warnings;

use Clairon::Test qw(wait_until scratch children);
use IO::Socket::UNIX;
use Socket qw(SOCK_DGRAM);
use Test::More;

my $path    = scratch() . '/notify';
my $manager = IO::Socket::UNIX->new(Type => SOCK_DGRAM, Local => $path) or die "no socket: $!";
$manager->blocking(0);
my @heard;

sub listen_to
{
    while (defined $manager->recv(my $datagram, 4096)) { push @heard, $datagram }
    return @heard;
}

# The datagrams up to the one that matches; later calls begin behind it.
sub hear
{
    my ($pattern) = @_;
    wait_until("$pattern is told", sub { grep { /$pattern/ } listen_to() });
    my @before;
    while (defined(my $one = shift @heard))
    {
        push @before, $one;
        last if $one =~ $pattern;
    }
    return @before;
}

my $pg    = Clairon::Test::postgresql('main');
my $store = Clairon::Test::store();

# From here on: those two speak sd_notify as well.
$ENV{NOTIFY_SOCKET} = $path;
$ENV{WATCHDOG_USEC} = 4_000_000;
my $relay = Clairon::Test::relay($pg, $store, wait => 0, conf => { 'gate.drain' => '2s' });

is_deeply([ hear(qr/READY/) ], ['READY=1'], 'it is ready, and says so once');
is(($relay->get('/healthz'))[0], 200, 'and it serves');
hear(qr/^WATCHDOG=1$/);
hear(qr/^WATCHDOG=1$/);
pass('the watchdog hears from it, again and again');
kill HUP => $relay->pid;
like((hear(qr/RELOADING/))[-1], qr/^RELOADING=1\nMONOTONIC_USEC=\d+$/, 'a reload is told');
is((hear(qr/READY/))[-1], 'READY=1', 'and its end');
is($relay->stop, 0, 'it drains');
is((hear(qr/STOPPING/))[-1], "STOPPING=1\nEXTEND_TIMEOUT_USEC=12000000",
    'the stop is told, and how long it may take');

# A number that is not this process's is somebody else's watchdog, whose interval is over many times until then.
@ENV{qw(WATCHDOG_PID WATCHDOG_USEC)} = ($$, 2000);
$relay->start;
hear(qr/READY/);
$relay->wait_ready;
$relay->stop;
ok(!grep({ /WATCHDOG/ } hear(qr/STOPPING/)), 'a watchdog of another process is left alone');
delete $ENV{WATCHDOG_PID};
$ENV{WATCHDOG_USEC} = 4_000_000;

# Several workers: one voice.
$relay->configure('gate.workers' => 2);
$relay->start;
hear(qr/READY/);
$relay->wait_ready;
hear(qr/^WATCHDOG=1$/);
my @workers = wait_until('both run', sub { my @all = children($relay->pid); @all == 2 ? \@all : undef })->@*;
kill STOP => $workers[1];
$relay->wait_for_log(qr/worker is stuck" pid=$workers[1].*worker was killed, starting another" pid=$workers[1] signal=9/s);
wait_until('another takes its place', sub { 2 == grep { $_ != $workers[1] } children($relay->pid) });
ok(scalar(grep { $_ == $workers[0] } children($relay->pid)), 'a stuck worker is replaced, and it alone');
# All of them paused, as with their machine, for longer than a worker may be silent.
@workers = children($relay->pid);
kill STOP => $relay->pid, @workers;
my $until = time + 6;
wait_until('a while is over', sub { time > $until });
listen_to();
@heard = ();
kill CONT => $relay->pid;
hear(qr/^WATCHDOG=1$/);
kill CONT => @workers;
$relay->wait_ready;
is_deeply([ children($relay->pid) ], \@workers, 'who was paused with all others is not stuck');
kill HUP => $relay->pid;
hear(qr/RELOADING/);
hear(qr/READY/);
$relay->stop;
is_deeply([ grep { !/^WATCHDOG=1$/ } hear(qr/STOPPING/) ], ["STOPPING=1\nEXTEND_TIMEOUT_USEC=12000000"],
    'of several, only the one that looks after them speaks');

# A manager that does not listen stops nothing.
$ENV{NOTIFY_SOCKET} = scratch() . '/nobody';
$relay->start;
$relay->wait_ready;
$relay->wait_for_log(qr/could not notify the service manager/);
pass('a manager that is away is only complained of');
$relay->stop;

$ENV{NOTIFY_SOCKET} = '@clairon-test-' . $$;
my $abstract = IO::Socket::UNIX->new(Type => SOCK_DGRAM, Local => "\0clairon-test-$$") or die "no socket: $!";
$manager = $abstract;
$manager->blocking(0);
$relay->start;
hear(qr/READY/);
pass('an abstract name serves as well');
$relay->stop;

done_testing();

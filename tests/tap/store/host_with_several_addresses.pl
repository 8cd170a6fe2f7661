# Tests a store host with several addresses: the relay finds the primary if another address belongs to a replica or does
# not respond.
use strict;
use warnings;

use Clairon::Test qw(free_port);
use IO::Socket::IP;
use Socket qw(getaddrinfo getnameinfo NI_NUMERICHOST NIx_NOSERV SOCK_STREAM);
use Test::More;

my (undef, @found) = getaddrinfo('localhost', '', { socktype => SOCK_STREAM });
my %found;
for my $one (@found)
{
    my (undef, $address) = getnameinfo($one->{addr}, NI_NUMERICHOST, NIx_NOSERV);
    $found{$address} = 1;
}
plan skip_all => 'localhost does not have both addresses on this machine'
  unless $found{'127.0.0.1'} && $found{'::1'} && IO::Socket::IP->new(LocalHost => '::1', LocalPort => 0, Listen => 1);

my $port = free_port();

# The relay connects to the IPv4 address first.
my $relay = Clairon::Test::relay(undef, undef, roles => 'gate', start => 0, conf => { 'store.url' => "redis://localhost:$port" });
my $primary = Clairon::Test::store(options => [ '--port', $port, '--bind', '::1', '--protected-mode', 'no' ]);
$relay->start;
$relay->wait_ready;
pass('an address without a listener is skipped');
$relay->stop;

my $replica = Clairon::Test::store(options => [ '--port', $port, '--bind', '127.0.0.1', '--replicaof', '127.0.0.1', free_port() ]);
my $mark = $relay->log_mark;
$relay->start;
$relay->wait_for_log(qr/READONLY/, from => $mark);
$relay->wait_ready;
pass('an address of a replica is skipped');

done_testing();

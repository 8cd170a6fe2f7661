# Tests that two relays that both have the lease of retries, because the store paused, give it up: then it expires, and one
# takes it. If both renewed it, the store would be searched twice for retries that are due.
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use Test::More;

my $store = Clairon::Test::store();
my $relay = Clairon::Test::relay(undef, $store, roles => 'gate');
my $lease = $store->shared('retry_lease');
sub expired { return $store->execute('INFO', 'stats') =~ /^expired_keys:(\d+)/m ? $1 : die 'no statistics' }

wait_until('the relay has the lease', sub { $store->execute('GET', $lease) });
my $own = $store->execute('GET', $lease);
my $before = expired();
$store->execute('SET', $lease, 'another relay', 'PX', 60_000);
wait_until('the relay has renewed it', sub { $store->execute('GET', $lease) eq $own });
wait_until('the lease has expired', sub { expired() > $before });
wait_until('the relay has it again', sub { ($store->execute('GET', $lease) // '') eq $own });
pass('the relay does not renew a lease that another one had, and acquires it when it has expired');

done_testing();

# Tests that only users who received a notification can acknowledge it, over any relay, and that each ack is confirmed
# once.
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use Test::More;

my $pg    = Clairon::Test::postgresql('main');
my $store = Clairon::Test::store();
my $proxy = Clairon::Test::proxy($store->{socket});
my $near  = Clairon::Test::relay($pg, $store);
my $proxied = Clairon::Test::relay(undef, $store, roles => 'gate', conf => { 'store.url' => $proxy->url('redis') });
my %group = (groups => { ROLE => ['q'] });

sub notify { return $pg->safe_psql('postgres', q{SELECT clairon.notify('ROLE', '{q}', '{}', ack_required => true)}) }
sub has { my ($client, $id) = @_; return scalar grep { $_->{metadata}{id} eq $id } $client->notifications }
sub state_of { my ($id) = @_; return { @{ $store->execute('HGETALL', $store->of($id, "ack:$id")) } } }
sub acked_ids { my ($client) = @_; return map { @{ $_->{ids} } } grep { $_->{t} eq 'acked' } @{ $client->{messages} } }

# A group without rows in clairon.member: every user who receives the notification, and no other user, must
# acknowledge it.
my $insider  = $near->client('insider', %group);
my $again    = $near->client('insider', %group);
my $outsider = $near->client('outsider');
my $id = notify();
$insider->run_until('the notification arrives', sub { has($insider, $id) });
wait_until('the notification is pending for the recipient', sub { exists state_of($id)->{insider} });
$outsider->ack($id);
$insider->ack($id, $id, uc $id);
wait_until('the ack is stored', sub { state_of($id)->{insider} > 0 });
is_deeply([ keys %{ state_of($id) } ], ['insider'], 'an ack by a user who did not receive the notification does not count');
$again->run_until('the other session receives the acked frame', sub { acked_ids($again) });
is_deeply([ acked_ids($again) ], [$id], 'an id repeated three times in one ack is confirmed once');

# The ack arrives over one relay before the other relay has sent its delivery report.
$proxy->delay(0.4);
my $receiver = $proxied->client('late', %group);
my $own   = $near->client('late');
my $after = notify();
$receiver->run_until('the notification arrives', sub { has($receiver, $after) });
$own->ack($after);
wait_until('the ack is stored', sub { (state_of($after)->{late} // 0) > 0 });
pass('an ack that arrives before the delivery report counts');
is($store->execute('ZSCORE', $store->of($after, 'due'), "$after:late"), undef, 'the notification is not due');
$receiver->run_until('the session of the recipient receives the acked frame',
    sub { grep { $_ eq $after } acked_ids($receiver) });
pass('the session of the recipient receives the acked frame');
is($_->metric('clairon_store_errors_total'), 0, 'the store returns no errors') for $near, $proxied;

done_testing();

# Does an ack count only for who was shown the message, whichever relay it comes by, and is it told once?
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use Test::More;

my $pg    = Clairon::Test::postgresql('main');
my $store = Clairon::Test::store();
my $proxy = Clairon::Test::proxy($store->{socket});
my $near  = Clairon::Test::relay($pg, $store);
my $far   = Clairon::Test::relay(undef, $store, roles => 'gate', conf => { 'store.url' => $proxy->url('redis') });
my %group = (groups => { ROLE => ['q'] });

sub notify { return $pg->safe_psql('postgres', q{SELECT clairon.notify('ROLE', '{q}', '{}', ack_required => true)}) }
sub has { my ($client, $id) = @_; return scalar grep { $_->{metadata}{id} eq $id } $client->notifications }
sub state_of { my ($id) = @_; return { @{ $store->execute('HGETALL', $store->of($id, "ack:$id")) } } }
sub told { my ($client) = @_; return map { @{ $_->{ids} } } grep { $_->{t} eq 'acked' } @{ $client->{messages} } }

# Nobody named it: whoever is shown it owes an ack, and nobody else.
my $insider  = $near->client('insider', %group);
my $again    = $near->client('insider', %group);
my $outsider = $near->client('outsider');
my $id = notify();
$insider->run_until('the message', sub { has($insider, $id) });
wait_until('its ack is waited for', sub { exists state_of($id)->{insider} });
$outsider->ack($id);
$insider->ack($id, $id, uc $id);
wait_until('one has acked', sub { state_of($id)->{insider} > 0 });
is_deeply([ keys %{ state_of($id) } ], ['insider'], 'who was not shown it has not acked it');
$again->run_until('the other session is told', sub { told($again) });
is_deeply([ told($again) ], [$id], 'an id that is acked three times in a line is told once');

# The ack comes by one relay before the other has said that it showed the message.
$proxy->delay(0.4);
my $shown = $far->client('late', %group);
my $own   = $near->client('late');
my $after = notify();
$shown->run_until('the message', sub { has($shown, $after) });
$own->ack($after);
wait_until('the ack counts', sub { (state_of($after)->{late} // 0) > 0 });
pass('an ack that overtakes the report of the showing counts');
is($store->execute('ZSCORE', $store->of($after, 'due'), "$after:late"), undef, 'and it is not due');
$shown->run_until('the session that showed it is told', sub { grep { $_ eq $after } told($shown) });
pass('its session is told');
is($_->metric('clairon_store_errors_total'), 0, 'the store never had to refuse') for $near, $far;

done_testing();

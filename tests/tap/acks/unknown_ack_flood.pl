# Does who acks and nacks very much that is not known, while the store is slow, harm anybody else, or fill the log?
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use Test::More;

my $pg    = Clairon::Test::postgresql('main');
my $store = Clairon::Test::store();
my $proxy = Clairon::Test::proxy($store->{socket});
my $relay = Clairon::Test::relay($pg, $store, conf => { 'store.url' => $proxy->url('redis'), 'delivery.ack_timeout' => '1h' });

sub strangers { my ($from) = @_; return [ map { sprintf '01900000-0000-7000-8000-%012x', $from + $_ } 1 .. 1024 ] }
# All of it was read: a pong is behind it.
sub said { my ($client) = @_;
    my $had = grep { $_->{t} eq 'pong' } @{ $client->{messages} };
    $client->send({ t => 'ping' });
    return $client->run_until('a pong', sub { $had < grep { $_->{t} eq 'pong' } @{ $client->{messages} } }) }

my ($honest, $flood) = map { $relay->client($_) } qw(honest flood);
my $id = $pg->safe_psql('postgres', q{SELECT clairon.notify('USER', '{honest}', '{}', ack_required => true)});
$honest->run_until('a message', sub { $honest->notifications });
wait_until('its showing is reported', sub { defined $store->execute('ZSCORE', 'clairon:due', "$id:honest") });

$proxy->freeze;
$flood->send({ t => 'ack', ids => strangers(1024 * $_) }) for 1 .. 110;
$flood->send({ t => 'nack', ids => strangers(1024 * $_), delay => 5 }) for 1 .. 30;
said($flood);
$honest->ack($id);
said($honest);
$proxy->thaw;
wait_until('the ack is stored', sub { $store->pending == 0 });
pass('the ack of what was shown here finds room');
is(scalar(() = $relay->log_text =~ /acks were not taken/g), 1, 'that acks found none is said once');
is(scalar(() = $relay->log_text =~ /nacks found no way/g), 1, 'and of nacks too');
said($flood);
pass('and who sent them stays');
is($relay->stop, 0, 'SIGTERM ends the relay in good order');

done_testing();

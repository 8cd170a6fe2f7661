# Tests that a flood of acks and nacks of unknown ids, with a slow store, does not affect other users and does not
# flood the log.
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use Test::More;

my $pg    = Clairon::Test::postgresql('main');
my $store = Clairon::Test::store();
my $proxy = Clairon::Test::proxy($store->{socket});
my $relay = Clairon::Test::relay($pg, $store, conf => { 'store.url' => $proxy->url('redis'), 'delivery.ack_timeout' => '1h' });

sub unknown_ids { my ($from) = @_; return [ map { sprintf '01900000-0000-7000-8000-%012x', $from + $_ } 1 .. 1024 ] }
# Waits for a pong, which proves that the relay has processed all earlier frames.
sub wait_pong { my ($client) = @_;
    my $before = grep { $_->{t} eq 'pong' } @{ $client->{messages} };
    $client->send({ t => 'ping' });
    return $client->run_until('a pong arrives', sub { $before < grep { $_->{t} eq 'pong' } @{ $client->{messages} } }) }

my ($honest, $flood) = map { $relay->client($_) } qw(honest flood);
my $id = $pg->safe_psql('postgres', q{SELECT clairon.notify('USER', '{honest}', '{}', ack_required => true)});
$honest->run_until('a notification arrives', sub { $honest->notifications });
wait_until('the delivery is reported', sub { defined $store->execute('ZSCORE', $store->of($id, 'due'), "$id:honest") });

my $begin = time;
$proxy->freeze;
$flood->send({ t => 'ack', ids => unknown_ids(1024 * $_) }) for 1 .. 110;
$flood->send({ t => 'nack', ids => unknown_ids(1024 * $_), delay => 5 }) for 1 .. 30;
wait_pong($flood);
$honest->ack($id);
wait_pong($honest);
$proxy->thaw;
wait_until('the ack is stored', sub { $store->pending == 0 });
pass('the ack of a delivered notification is accepted');
for my $what ('ack queue is full', 'nacks dropped')
{
    my $count = () = $relay->log_text =~ /$what/g;
    ok($count >= 1 && $count <= 1 + (time - $begin) / 10, "\"$what\" is logged at most once in ten seconds");
}
wait_pong($flood);
pass('the client stays connected');
is($relay->stop, 0, 'SIGTERM ends the relay with status 0');

done_testing();

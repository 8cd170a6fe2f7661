# Tests that a ticket stays valid while the store of its user is unavailable, and works once afterwards.
use strict;
use warnings;

use Clairon::Test qw(wait_until scratch);
use Clairon::Test::RawSocket;
use Test::More;

my $program = Clairon::Test::program();
system("umask 077; '$program' vapid >'@{[ scratch() ]}/vapid'") == 0 or die "could not create a key\n";
my $cluster = Clairon::Test::store_cluster(replicas => 0);
my $relay   = Clairon::Test::relay(undef, $cluster, roles => 'gate', conf => { 'store.min_replicas' => 0, 'webpush.vapid_key_file' => scratch() . '/vapid',
    'webpush.subject' => 'mailto:ops@example.org', 'webpush.app_url' => 'https://app.example/' });
my $tickets = $cluster->primary_of(0); # shard 0 has the tickets
my ($user)  = grep { $cluster->primary_of($cluster->shard_of($_)) != $tickets } map { "u$_" } 0 .. 29;
my $lost    = $cluster->primary_of($cluster->shard_of($user));
my $TICKET  = 'ab' x 16;

sub spend { return Clairon::Test::RawSocket->new($relay)->request(POST => '/v1/ack', ':body' => { ticket => $TICKET })->{status} }

$tickets->execute('SET', "clairon:{0}:push_ticket:$TICKET", "01234567-89ab-8def-8123-456789abcdef $user");
$lost->kill9;
wait_until('the relay has lost shards', sub { $relay->metric('clairon_store_unavailable_shards') > 0 });
is(spend(), 503, 'a ticket of a user whose store is unavailable is not redeemed');
is(spend(), 503, 'nor is a repetition rejected as used');
$lost->start;
wait_until('no shard is missing', sub { $relay->metric('clairon_store_unavailable_shards') == 0 });
is(spend(), 204, 'when the store is available again, the ticket acknowledges');
is(spend(), 410, 'once');

done_testing();

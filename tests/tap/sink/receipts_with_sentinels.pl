# Tests that the sinks survive failovers by sentinels: the rows are exactly the receipts that the promoted server has, each
# once, and the webhook has received each.
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use Clairon::Test::Endpoint;
use Clairon::Test::Receipts;
use Test::More;

my $pg        = Clairon::Test::postgresql('main');
my $sentinels = Clairon::Test::sentinels();
my $receipts  = Clairon::Test::Receipts->new($pg, $sentinels);
my $endpoint  = Clairon::Test::Endpoint->launch;
Clairon::Test::relay($pg, $sentinels, roles => 'gate,sink', conf => { 'receipts.sql' => 'true', 'receipts.conninfo' => $pg->connstr('postgres') . ' user=relay',
    $endpoint->settings }) for 1, 2;

sub stored { return map { $_->{id} } $sentinels->entries($sentinels->keys('receipts')) }
sub not_received { my %received = map { $_ => 1 } $endpoint->received; return grep { !$received{$_} } sort keys %{ $receipts->{ids} } }
sub check
{
    my ($when) = @_;
    $receipts->wait_all;
    is_deeply([ $receipts->differences ], [], "$when: the rows are the receipts of the store");
    wait_until("$when: the webhook has received each receipt", sub { !not_received() });
    wait_until("$when: all receipts are acknowledged", sub { (eval { $receipts->pending('sql') + $receipts->pending('webhook') } // 1) == 0 });
    return;
}

$receipts->add_many(50);
check('at first');
for my $how (qw(killed paused))
{
    my $former = $sentinels->primary;
    # Some of these are under way, and some may be lost with the primary.
    $receipts->add(map { {} } 1 .. 500);
    if ($how eq 'killed') { $former->kill9 }
    else                  { kill STOP => $former->pid }
    $sentinels->wait_failover($former);
    if ($how eq 'killed') { $former->start }
    else                  { kill CONT => $former->pid }
    wait_until("the former primary that was $how is a replica", sub { (eval { $former->execute('ROLE')->[0] } // '') eq 'slave' });
    # A receipt that no replica had is lost with the primary, and must not be a row.
    $receipts->{ids} = { map { $_ => 1 } stored() };
    $receipts->add_many(50);
    check("after the primary was $how");
}
cmp_ok(scalar(keys %{ $receipts->{ids} }), '>=', 150, 'the store has receipts');
done_testing();

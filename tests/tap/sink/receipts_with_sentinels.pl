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

sub stored { return map { $_->{id} } map { $sentinels->entries($_) } $sentinels->keys('receipts') }
# The sentinels may promote another server soon after: it may lack what was added meanwhile.
sub forget_lost { my %stored = map { $_ => 1 } eval { stored() }; delete @{ $receipts->{ids} }{ grep { !$stored{$_} } keys %{ $receipts->{ids} } } if %stored; return }
sub not_received { my %received = map { $_ => 1 } $endpoint->received; return grep { !$received{$_} } sort keys %{ $receipts->{ids} } }
sub check
{
    my ($when) = @_;
    wait_until("$when: the receipts of the store are rows", sub {
        forget_lost();
        ($receipts->row_count // -1) >= keys %{ $receipts->{ids} };
    });
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
    else                  { $former->pause }
    $sentinels->wait_failover($former);
    if ($how eq 'killed') { $former->start }
    else                  { kill CONT => $former->pid }
    wait_until("the former primary that was $how is a replica", sub { (eval { $former->execute('ROLE')->[0] } // '') eq 'slave' });
    # A receipt that no replica had is lost with the primary, and must not be a row.
    forget_lost();
    $receipts->add_many(50);
    check("after the primary was $how");
}
cmp_ok(scalar(keys %{ $receipts->{ids} }), '>=', 150, 'the store has receipts');
done_testing();

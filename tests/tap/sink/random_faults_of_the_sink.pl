# Tests that each receipt becomes exactly one row, and reaches the webhook at least once, while relays, the store, the primary and
# the endpoint are killed, paused and restarted at random. CLAIRON_SINK_SEED repeats a run; CLAIRON_SINK_ROUNDS is its length.
use strict;
use warnings;

use Clairon::Test qw(wait_until amount);
use Clairon::Test::Endpoint;
use Clairon::Test::Receipts;
use Test::More;

my $seed   = $ENV{CLAIRON_SINK_SEED} // int(rand(1 << 30));
my $rounds = $ENV{CLAIRON_SINK_ROUNDS} // amount(25, 300);
srand($seed);
diag("CLAIRON_SINK_SEED=$seed");

$ENV{CLAIRON_TEST_SHARDS} = 4;
my $pg       = Clairon::Test::postgresql('main');
my $store    = Clairon::Test::store();
my $receipts = Clairon::Test::Receipts->new($pg, $store);
my $endpoint = Clairon::Test::Endpoint->launch;
my @relays   = map { Clairon::Test::relay($pg, $store, wait => 0, conf => { 'receipts.sql' => 'true', $endpoint->settings }) } 1 .. 2;
my %paused;

sub one { return $_[ int(rand(@_)) ] }

my %faults = (
    'a relay is killed' => sub { my $relay = one(@relays); resume($relay); $relay->kill9; $relay->start },
    'a relay is stopped' => sub { my $relay = one(@relays); resume($relay); $relay->stop; $relay->start },
    'a relay is paused' => sub { my $relay = one(@relays); kill STOP => $relay->pid; $paused{$relay} = $relay },
    'relays are resumed' => sub { resume($_) for @relays },
    'the store is killed' => sub { $store->kill9; $store->start },
    'the primary crashes' => sub { $pg->stop('immediate'); $pg->start },
    'connections are terminated' => sub { $pg->safe_psql('postgres', q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'clairon sink'}) },
    'the endpoint is killed' => sub { $endpoint->end; $endpoint->start },
    'the endpoint fails' => sub { $endpoint->reply(500) },
    'the endpoint works' => sub { $endpoint->reply(200) },
    'nothing' => sub { },
);

sub resume
{
    my ($relay) = @_;
    kill CONT => $relay->pid if delete $paused{$relay};
    return;
}

for my $round (1 .. $rounds)
{
    $receipts->add(map { { shard => int(rand(4)) } } 1 .. 1 + int(rand(200)));
    $receipts->add_packed(int(rand(4)), 1 + int(rand(40))) for 1 .. int(rand(8));
    my $name = one(sort keys %faults);
    note("round $round: $name");
    $faults{$name}->();
}
resume($_) for @relays;
$endpoint->reply(200);
$receipts->wait_all;
is_deeply([ $receipts->differences ], [], "each of @{[ scalar keys %{ $receipts->{ids} } ]} receipts is one row");
my %sent;
wait_until('the webhook has received each receipt', sub { @sent{ $endpoint->received } = (); !grep { !exists $sent{$_} } keys %{ $receipts->{ids} } });
for my $sink ('sql', 'webhook')
{
    wait_until('all receipts are acknowledged', sub { $receipts->pending($sink) == 0 });
    wait_until('only the living relays are consumers', sub { my %names = map { $_ => 1 } map { $receipts->consumers($sink, $_) } 0 .. 3; keys %names <= 2 });
}
pass('nothing is left behind');
done_testing();

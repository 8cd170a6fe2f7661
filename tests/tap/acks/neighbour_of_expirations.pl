# Tests that rows of a table owner are delivered on time while many notifications of another owner expire.
use strict;
use warnings;

use Clairon::Test qw(amount);
use Clairon::Test::Neighbour;
use Test::More;

my $ROWS      = amount(10_000, 100_000);
my $pg        = Clairon::Test::postgresql('main', conf => 'autovacuum = off');
my $store     = Clairon::Test::store();
my $relay     = Clairon::Test::relay($pg, $store);
my $neighbour = Clairon::Test::Neighbour->new($pg, $relay, store => $store);

my %delay;
for my $case ([ kept => 'ack_required => true' ], [ expiring => q{ack_required => true, ttl => '1 s'} ])
{
    my ($name, $options) = @$case;
    $neighbour->run_as('mallory', "CREATE TABLE mallory.$name (id int, u text); SELECT clairon.watch('mallory.$name', 'USER', 'u', $options)");
    $delay{$name} = $neighbour->worst_delay("$ROWS rows, $name", "INSERT INTO mallory.$name SELECT i, 'n' FROM generate_series(1, $ROWS) i");
    next if $name eq 'kept';
    for (1 .. 20_000)
    {
        my $delay = $neighbour->delay_of_row;
        $delay{$name} = $delay if $delay > $delay{$name};
        last if $relay->metric('clairon_errors_total{reason="expired"}') >= $ROWS;
    }
}
is($relay->metric('clairon_errors_total{reason="expired"}'), $ROWS, 'all rows expire');
$neighbour->is_unnoticed('rows that expire', $delay{expiring}, $delay{kept});
done_testing();

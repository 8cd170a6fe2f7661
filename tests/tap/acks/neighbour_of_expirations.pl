# Tests that rows of a table owner are delivered on time while many notifications of another owner expire.
use strict;
use warnings;

use Clairon::Test qw(amount);
use Clairon::Test::Neighbour;
use List::Util qw(max);
use Test::More;

my $ROWS      = amount(10_000, 100_000);
my $pg        = Clairon::Test::postgresql('main', conf => 'autovacuum = off');
my $store     = Clairon::Test::store();
my $relay     = Clairon::Test::relay($pg, $store);
my $neighbour = Clairon::Test::Neighbour->new($pg, $relay, store => $store);

my $expired = 0;
for my $case ([ kept => '' ], [ expiring => q{, ttl => '1 s'} ])
{
    my ($name, $options) = @$case;
    $neighbour->run_as('mallory', "CREATE TABLE mallory.$name (id int, u text); SELECT clairon.watch('mallory.$name', 'USER', 'u', ack_required => true$options)");
}
sub rows { my ($name) = @_; return $neighbour->worst_delay("$ROWS rows, $name", "INSERT INTO mallory.$name SELECT i, 'n' FROM generate_series(1, $ROWS) i") }
sub expired { return $relay->metric('clairon_errors_total{reason="expired"}') // 0 }
sub expire
{
    my $worst = rows('expiring');
    $expired += $ROWS;
    for (1 .. 20_000)
    {
        $worst = max $worst, $neighbour->delay_of_row;
        last if expired() >= $expired;
    }
    return $worst;
}
$neighbour->remains_unnoticed('rows that expire', \&expire, sub { rows('kept') });
is(expired(), $expired, 'all rows expire');
done_testing();

# Runs the faults of random_faults.pl with four shards: each committed row is stored exactly once and in commit order in
# its shard.
use strict;
use warnings;

use Clairon::Test qw(amount);

$ENV{CLAIRON_TEST_SHARDS}     //= 4;
$ENV{CLAIRON_TORTURE_FAULTS}  //= amount(8, 60);
my $path = Clairon::Test::top() . '/tests/tap/torture/random_faults.pl';
do $path or die $@ || "could not read $path: $!\n";

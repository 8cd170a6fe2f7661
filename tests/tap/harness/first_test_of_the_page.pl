# Tests that the first test in tests/README.md passes as it is printed there.
use strict;
use warnings;

use Clairon::Test qw(scratch top);
use PostgreSQL::Test::Utils qw(slurp_file);

my ($code) = slurp_file(top() . '/tests/README.md') =~ /^```perl\n(.*?)^```$/ms or die "no test in tests/README.md\n";
my $path = scratch() . '/first.pl';
PostgreSQL::Test::Utils::append_to_file($path, $code);
do $path;
die $@ if $@;

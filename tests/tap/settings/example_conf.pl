# Tests that the example relay.conf contains every setting, with valid names and defaults.
use strict;
use warnings;

use Clairon::Test;
use IPC::Run ();
use PostgreSQL::Test::Utils qw(slurp_file);
use Test::More;

my $top    = Clairon::Test::top();
my $folder = Clairon::Test::scratch();

sub relay
{
    IPC::Run::run([ Clairon::Test::program(), 'relay', @_ ], '<', \undef, '>&', \my $output);
    return ($? & 127 ? -1 : $? >> 8, $output);
}

my ($status, $help) = relay('--help');
$help =~ s/^  (?=[a-z_0-9]+ = )/  --issuer./mg; # of [issuer NAME]
$help =~ s/^(  --issuer\.\w+) = /$1=/mg;
my %known = map { $_ => 1 } $help =~ /^\s+--([a-z0-9]+\.[a-z0-9_]+)=/mg;
my %default = $help =~ /^\s+--([a-z0-9]+\.[a-z0-9_]+)=.*\n.*\(default: (.*)\)$/mg;
cmp_ok(scalar keys %known, '>', 30, 'the help lists the settings');

my $example = slurp_file("$top/docker/relay.conf.example");
my ($section, %named);
for (split /\n/, $example)
{
    $section = $1 if /^\[(\w+)\]$/ || /^#\[(issuer) \w+\]$/;
    $named{"$section.$1"} = $2 if /^#?(\w+) =\s*(.*)$/;
}
is_deeply([ sort keys %named ], [ sort keys %known ], 'the example contains each setting');
# A required setting has no default.
my @with_default = grep { $default{$_} ne 'unset' } keys %default;
is_deeply(
    { map { $_ => $named{$_} } @with_default },
    { map { $_ => $default{$_} } @with_default },
    'the example contains each default');

open my $secret, '>', "$folder/secret" or die $!;
print {$secret} 'x' x 32;
close $secret;
$example =~ s{^hs256_secret_file = .*$}{hs256_secret_file = $folder/secret}m;
open my $conf, '>', "$folder/relay.conf" or die $!;
print {$conf} $example;
close $conf;
my $message;
($status, $message) = relay('--check', '-c', "$folder/relay.conf");
is($status, 0, 'the example is valid') or diag($message);

done_testing();

# Does bash complete every command, option and setting of clairon?
use strict;
use warnings;

use Clairon::Test qw(top);
use Test::More;

my $program = Clairon::Test::program();

# What Tab offers behind those words, the last of which is being typed.
sub offered
{
    my @words = ($program, @_);
    my $script = '. "$1/docker/clairon.completion.bash"; shift; COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)); _clairon'
      . '; printf "%s\n" "${COMPREPLY[@]}"';
    open my $bash, '-|', 'bash', '-c', $script, 'bash', top(), @words or die "could not start bash: $!";
    return grep { length } map { s/\n//r } <$bash>;
}

my @commands = qx{$program --help} =~ /^  (\w+)\b/mg;
cmp_ok(scalar @commands, '>', 3, 'the program has commands');
is_deeply([ sort grep { !/^-/ } offered('') ], [ sort @commands ], 'all commands are offered');
is_deeply([ offered('rel') ], ['relay'], 'one that is begun is completed');
is_deeply([ offered('errors', '') ], [qw(drop list redrive)], 'a command has its verbs');

my @settings = map { "$_=" } qx{$program relay --help} =~ /^ +(--[a-z]+\.[a-z_0-9]+)=/mg;
cmp_ok(scalar @settings, '>', 30, 'the relay has settings');
is_deeply([ grep { /\./ } offered('relay', '--') ], [ sort @settings ], 'all settings are offered');
is_deeply([ offered('relay', '--gate.listen') ], ['--gate.listen='], 'a setting is completed up to its value');
is_deeply([ offered('token', '--gr') ], ['--groups'], 'a command has its options');
is_deeply([ offered('relay', '-c', top() . '/Make') ], [ top() . '/Makefile' ], '-c takes a file');

done_testing();

# Tests that bash completes every command, option and setting of clairon.
use strict;
use warnings;

use Clairon::Test qw(top);
use Test::More;

my $program = Clairon::Test::program();

# Returns the completions for these words, the last of which is incomplete.
sub completions
{
    my @arguments = ($program, @_);
    my $script = '. "$1/docker/clairon.completion.bash"; shift; COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)); _clairon'
      . '; printf "%s\n" "${COMPREPLY[@]}"';
    open my $bash, '-|', 'bash', '-c', $script, 'bash', top(), @arguments or die "could not start bash: $!";
    return grep { length } map { s/\n//r } <$bash>;
}

my @commands = qx{$program --help} =~ /^  (\w+)\b/mg;
cmp_ok(scalar @commands, '>', 3, 'the program has commands');
is_deeply([ sort grep { !/^-/ } completions('') ], [ sort @commands ], 'all commands are completed');
is_deeply([ completions('rel') ], ['relay'], 'a partial command is completed');
is_deeply([ completions('errors', '') ], [qw(drop list redrive)], 'subcommands are completed after a command');
is_deeply([ completions('store', '') ], ['accept'], 'the subcommand of store is completed');

my @settings = map { "$_=" } qx{$program relay --help} =~ /^ +(--[a-z]+\.[a-z_0-9]+)=/mg;
cmp_ok(scalar @settings, '>', 30, 'the relay has settings');
is_deeply([ grep { /\./ } completions('relay', '--') ], [ sort @settings ], 'all settings are completed');
is_deeply([ completions('relay', '--gate.listen') ], ['--gate.listen='],
    'a setting is completed up to its equals sign');
is_deeply([ completions('token', '--gr') ], ['--groups'], 'options are completed after a command');
is_deeply([ completions('drop', '--so') ], ['--source'], 'options of drop are completed');
is_deeply([ completions('relay', '-c', top() . '/Make') ], [ top() . '/Makefile' ],
    'a file name is completed after -c');

done_testing();

# Clairon::Test::Pages: types the commands of the pages in docker/ for the client of the store, `$CLI`.
package Clairon::Test::Pages;

use strict;
use warnings;

use Carp qw(croak);
use IPC::Run;
use List::Util ();
use PostgreSQL::Test::Utils ();
use Test::More;

my @TOOLS   = qw(grep seq xargs);    # that the commands use
my $SECONDS = 300;

# Only the client of the tested store is on the PATH of the commands.
sub new
{
    my ($class, $folder) = @_;
    my $server = $ENV{STORE_SERVER};
    ($server) = grep { -x } map { "$_/$server" } split /:/, $ENV{PATH} unless $server =~ m{/};
    my $client = $server =~ s/-server$/-cli/r;
    for my $program ($client, map { my $tool = $_; (grep { -x } map { "$_/$tool" } split /:/, $ENV{PATH})[0] } @TOOLS)
    {
        symlink $program, "$folder/" . ($program =~ s{.*/}{}r) or die "could not link $program: $!";
    }
    return bless { folder => $folder, client => $client, typed => {} }, $class;
}

sub text { my ($page) = @_; return PostgreSQL::Test::Utils::slurp_file(Clairon::Test::top() . "/docker/$page.md") }

# Returns the commands for `$CLI` of a page, of its code blocks and of its sentences.
sub commands
{
    my ($page) = @_;
    my ($blocks, $sentences) = ('', '');
    for my $part (split /^( *```.*?^ *```)$/ms, text($page))
    {
        if   ($part =~ /^ *```/) { $blocks .= $part }
        else                     { $sentences .= $part }
    }
    my @commands = grep { !/^CLI=/ && /\$CLI / } map { s/^ +//r } split /\n/, $blocks;
    return List::Util::uniq(@commands, map { s/\s+/ /gr } $sentences =~ /`(\$CLI\s[^`]+)`/g);
}

# Returns the directives of the code block after the text, names and values.
sub directives
{
    my ($page, $after) = @_;
    my ($block) = text($page) =~ /\Q$after\E\n```\n(.*?)^```/ms or croak "no settings in $page.md";
    return map { split / /, $_, 2 } split /\n/, $block;
}

# Types a command of a page. Options: port => of the store, replace => { text of the command => what to type instead },
# input, seconds => a command that runs until it is stopped. Returns its output, and fails the test if it reports an error.
sub type
{
    my ($self, $page, $pattern, %options) = @_;
    my @found = grep { $_ =~ $pattern } commands($page);
    croak "$page.md has " . @found . " commands for $pattern" unless @found == 1;
    my ($command) = @found;
    $self->{typed}{$command} = 1;
    my ($definition) = text($page) =~ /^(CLI=.*)$/m;
    $definition //= (text('RUNBOOKS') =~ /^(CLI=.*)$/m)[0];
    my $typed = $command;
    for my $name (sort { length $b <=> length $a } keys %{ $options{replace} // {} })
    {
        $typed =~ s/\Q$name\E/$options{replace}{$name}/g or croak "\"$command\" lacks \"$name\"";
    }
    my $script = "PATH=$self->{folder}\n$definition\n" . ($options{port} ? "CLI=\"\$CLI -p $options{port}\"\n" : '') . "set -o pipefail\n$typed";
    my ($input, $output) = ($options{input} // '', '');
    IPC::Run::run([ 'timeout', $options{seconds} // $SECONDS, '/bin/bash', '-c', $script ], '<', \$input, '>', \$output, '2>&1');
    my $status = $? >> 8;
    $output =~ s/\e\[[\d;]*m//g;    # colors
    # `--cluster fix` reports the slots without a node, which it assigns.
    my $has_error = $output =~ s/^\[ERR\] Not all \d+ slots are covered.*\n//mgr =~ /(?:^|\()error|^\[?ERR\b|^\w*ERR |noperm|wrongtype|not found|no such|unknown|usage:/im;
    ok(!$has_error && $status == ($options{seconds} ? 124 : 0), "$page.md: $command") or diag("typed: $typed\nstatus $status\n$output");
    return $output;
}

# Returns the commands of a page that were not typed.
sub untyped { my ($self, $page) = @_; return join "\n", grep { !$self->{typed}{$_} } commands($page) }

1;

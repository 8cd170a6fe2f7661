# Tests that Ctrl-C during the installation of packages waits for apt-get and starts no other command.
use strict;
use warnings;

use Clairon::Test qw(wait_until scratch top);
use POSIX qw(setpgid);
use Test::More;

my $bin = scratch() . '/bin';
my $log = scratch() . '/calls';
mkdir $bin or die "$bin: $!";

sub script
{
    my ($name, $text) = @_;
    open my $file, '>', "$bin/$name" or die "$bin/$name: $!";
    print $file "#!/bin/bash\n$text\n";
    close $file or die "$bin/$name: $!";
    chmod 0755, "$bin/$name";
}

sub calls
{
    open my $file, '<', $log or return '';
    return join '', <$file>;
}

# No package is installed, sudo needs no password, and apt-get waits until the test releases it.
script('dpkg-query', 'exit 1');
script('id', 'echo 1000');
script('sudo', 'shift; exec "$@"');
script('apt-get', qq{echo begun >>'$log'; for ((i = 0; i < 6000; i++)); do [ ! -e '$log.release' ] || break; sleep 0.1; done; echo ended >>'$log'});

my $pid = fork // die "fork: $!";
if ($pid == 0)
{
    setpgid(0, 0);
    $SIG{INT} = 'DEFAULT';
    $ENV{PATH} = "$bin:$ENV{PATH}";
    open STDOUT, '>', "$log.out" or die $!;
    exec top() . '/relay/tools/install-packages.sh', 'run' or die $!;
}
wait_until('apt-get has started', sub { calls() =~ /begun/ });
kill INT => -$pid;    # like a terminal, to the foreground process group
wait_until('the signal is reported', sub { open my $out, '<', "$log.out" or return 0; join('', <$out>) =~ /^interrupted: waiting/m });
open my $release, '>', "$log.release" or die $!;
close $release;
waitpid $pid, 0;
is($? >> 8, 130, 'the command exits with the status of an interrupt');
is(calls(), "begun\nended\n", 'apt-get completes and is not started again');
done_testing();

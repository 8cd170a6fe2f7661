# Clairon::Test::Process: a child process with a log file, started and stopped by its pid.
package Clairon::Test::Process;

use strict;
use warnings;

use POSIX ();
use Test::More ();

# start(@command): appends the output to {log}.
sub start
{
    my ($self) = @_;
    die "$self->{name} is already running\n" if $self->{pid};
    my @command = $self->command;
    $self->{start_mark} = $self->log_mark;
    my $pid     = fork // die "could not fork: $!";
    if ($pid == 0)
    {
        POSIX::setsid();
        open STDIN,  '<',  '/dev/null'   or POSIX::_exit(126);
        open STDOUT, '>>', $self->{log}  or POSIX::_exit(126);
        open STDERR, '>&', \*STDOUT      or POSIX::_exit(126);
        { no warnings 'exec'; exec { $command[0] } @command; }
        print STDERR "could not start $command[0]: $!\n";
        POSIX::_exit(127);
    }
    $self->{pid} = $pid;
    return;
}

sub pid { return $_[0]{pid} }

# Returns whether the process is alive; stores the exit status when it has ended.
sub is_alive
{
    my ($self) = @_;
    return 0 unless $self->{pid};
    return 1 if waitpid($self->{pid}, POSIX::WNOHANG()) == 0;
    $self->{status} = $?;
    delete $self->{pid};
    return 0;
}

# Waits for the process and returns its status in the format of $?.
sub wait_end
{
    my ($self, $seconds) = @_;
    Clairon::Test::wait_until("$self->{name} ends", sub { !$self->is_alive }, $seconds);
    return $self->{status};
}

# Sends SIGTERM, waits and returns the status. Dies at the deadline.
sub stop
{
    my ($self, $seconds) = @_;
    kill TERM => $self->{pid} if $self->is_alive;
    return $self->wait_end($seconds);
}

sub kill9
{
    my ($self) = @_;
    kill KILL => $self->{pid} if $self->is_alive;
    return $self->wait_end;
}

# Sends SIGSTOP and waits until no thread runs any more; SIGCONT continues the process. kill() alone returns earlier, and
# the threads of KeyDB then execute further commands.
sub pause
{
    my ($self) = @_;
    kill STOP => $self->{pid};
    waitpid $self->{pid}, POSIX::WUNTRACED();
    return;
}

# Stops the process at the end of a test. Dies if it has already ended, does not end, or exits with an error.
sub end
{
    my ($self) = @_;
    return unless $self->{pid};
    die "$self->{name} ended early, status $self->{status}\n" unless $self->is_alive;
    kill CONT => $self->{pid};    # a process stopped by SIGSTOP must be able to handle the signals
    if (!eval { $self->stop; 1 })
    {
        $self->kill9;
        die "$self->{name} did not end\n";
    }
    die "$self->{name} ended with status $self->{status}\n" if $self->{status} != 0 && $self->{status} != POSIX::SIGTERM();
    return;
}

sub log_text
{
    my ($self, $from) = @_;
    open my $file, '<', $self->{log} or return '';
    seek $file, $from // 0, 0;
    local $/;
    return <$file> // '';
}

# Returns the current size of the log, as an offset for wait_for_log().
sub log_mark { return -s $_[0]{log} || 0 }

# Waits until the log matches; returns the log from the offset `from` on.
sub wait_for_log
{
    my ($self, $pattern, %options) = @_;
    return Clairon::Test::wait_until("$self->{name} logs $pattern",
        sub { my $text = $self->log_text($options{from}); $text =~ $pattern ? $text : undef },
        $options{seconds});
}

sub print_log
{
    my ($self) = @_;
    my @lines = split /\n/, $self->log_text;
    splice @lines, 0, @lines - 40 if @lines > 40;
    Test::More::diag("end of the log of $self->{name}:\n", map { "  $_\n" } @lines);
    return;
}

1;

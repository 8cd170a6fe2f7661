# Clairon::Test::Store: a KeyDB-compatible server on a unix socket, and a client that speaks RESP.
package Clairon::Test::Store;

use strict;
use warnings;

use parent -norequire, 'Clairon::Test::Process';
use Clairon::Test::Process;
use Carp qw(croak);
use IO::Socket::UNIX;

# Options: folder, fsync => everysec | always | no, options => [more arguments of the server].
sub new
{
    my ($class, %options) = @_;
    my $folder = $options{folder};
    my $server = $ENV{STORE_SERVER}
      or die "no store: keydb-server, valkey-server or redis-server must be on PATH\n";
    return bless {
        name    => 'store',
        folder  => $folder,
        log     => "$folder/log",
        socket  => "$folder/sock",
        server  => $server,
        fsync   => $options{fsync} // 'everysec',
        options => $options{options} // [],
    }, $class;
}

sub command
{
    my ($self) = @_;
    return (
        $self->{server}, '--port', 0, '--unixsocket', $self->{socket}, '--dir', $self->{folder},
        '--appendonly', 'yes', '--appendfsync', $self->{fsync}, '--save', '',
        '--maxmemory-policy', 'noeviction',
        ($self->{server} =~ /keydb/ ? ('--server-threads', 1) : ()), @{ $self->{options} });
}

# Started, and its data in memory.
sub start
{
    my ($self) = @_;
    unlink $self->{socket};
    $self->SUPER::start;
    Clairon::Test::wait_until('the store answers', sub {
        $self->is_alive or die "the store ended: " . $self->log_text . "\n";
        my $info = eval { $self->ask('INFO', 'persistence') };
        return defined $info && $info =~ /^loading:0/m;
    });
    return;
}

sub restart
{
    my ($self) = @_;
    $self->stop;
    $self->start;
    return;
}

sub url { return "unix://$_[0]{socket}" }

# ask('XLEN', 'clairon:stream'): the answer; arrays as references, nil as undef. An
# error of the server dies with its text.
sub ask
{
    my ($self, @words) = @_;
    utf8::encode($_) for @words;
    my $request = '*' . @words . "\r\n" . join '', map { '$' . length . "\r\n$_\r\n" } @words;
    my $answer  = eval {
        my $link = $self->link;
        print {$link} $request or die "could not write: $!\n";
        $link->flush;
        [ read_answer($link) ];
    };
    if (!$answer)
    {
        my $error = $@;
        delete $self->{link};
        die $error;
    }
    croak $answer->[0][0] if ref $answer->[0] eq 'Clairon::Test::Store::Error';
    return $answer->[0];
}

sub link
{
    my ($self) = @_;
    # A fork's child would share it: one link for each process.
    if (!$self->{link} || $self->{link_pid} != $$)
    {
        $self->{link} = IO::Socket::UNIX->new(Peer => $self->{socket}, Timeout => 5)
          or die "could not connect to $self->{socket}: $!\n";
        $self->{link_pid} = $$;
    }
    return $self->{link};
}

sub read_answer
{
    my ($link) = @_;
    local $/ = "\r\n";
    my $line = <$link> // die "the store closed the connection\n";
    chomp $line;
    my ($kind, $rest) = (substr($line, 0, 1), substr($line, 1));
    return $rest if $kind eq '+' || $kind eq ':';
    return bless [$rest], 'Clairon::Test::Store::Error' if $kind eq '-';
    return undef if $rest < 0;
    return [ map { read_answer($link) } 1 .. $rest ] if $kind eq '*';
    die "the store said: $line\n" unless $kind eq '$';
    read($link, my $bytes, $rest + 2) == $rest + 2 or die "the store closed the connection\n";
    return substr $bytes, 0, $rest;
}

# What the stream holds: references to hashes of an entry's fields and its `entry` id.
sub entries
{
    my ($self, $key) = @_;
    my $rows = $self->ask('XRANGE', $key // 'clairon:stream', '-', '+');
    return map { { @{ $_->[1] }, entry => $_->[0] } } @$rows;
}

# How many entries of the stream wait for acknowledgements.
sub pending
{
    my ($self, $key) = @_;
    return $self->ask('XPENDING', $key // 'clairon:stream', 'clairon')->[0];
}

1;

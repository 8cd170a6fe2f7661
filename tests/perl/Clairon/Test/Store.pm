# Clairon::Test::Store: a KeyDB-compatible server on a Unix socket, and a RESP client.
package Clairon::Test::Store;

use strict;
use warnings;

use parent -norequire, 'Clairon::Test::Process';
use Clairon::Test::Process;
use Clairon::Test::Receipts;
use Carp qw(croak);
use IO::Socket::UNIX;
use Socket qw(MSG_DONTWAIT MSG_PEEK);

# Options: folder, fsync => everysec | always | no, file => 1: a configuration file, which CONFIG REWRITE writes, options => [additional arguments of the server].
sub new
{
    my ($class, %options) = @_;
    my $folder = $options{folder};
    PostgreSQL::Test::Utils::append_to_file("$folder/conf", '') if $options{file};
    my $server = $ENV{STORE_SERVER}
      or die "no store: keydb-server, valkey-server or redis-server must be on PATH\n";
    return bless {
        name    => 'store',
        folder  => $folder,
        log     => "$folder/log",
        socket  => "$folder/sock",
        server  => $server,
        fsync   => $options{fsync} // 'everysec',
        file    => $options{file} ? ["$folder/conf"] : [],
        options => $options{options} // [],
    }, $class;
}

sub command
{
    my ($self) = @_;
    return (
        $self->{server}, @{ $self->{file} }, '--port', 0, '--unixsocket', $self->{socket}, '--dir', $self->{folder},
        '--appendonly', 'yes', '--appendfsync', $self->{fsync}, '--save', '',
        '--maxmemory-policy', 'noeviction',
        ($self->{server} =~ /keydb/ ? ('--server-threads', 1) : ()), @{ $self->{options} });
}

# Returns directives of a configuration file, names and values, as arguments.
sub as_arguments { my (@directives) = @_; return map { $_ % 2 ? $directives[$_] : "--$directives[$_]" } 0 .. $#directives }

# Starts the server and waits until its dataset is loaded.
sub start
{
    my ($self) = @_;
    $self->launch;
    $self->wait_loaded;
    return;
}

sub launch
{
    my ($self) = @_;
    unlink $self->{socket};
    delete $self->{link};
    $self->SUPER::start;
    return;
}

sub wait_loaded
{
    my ($self) = @_;
    Clairon::Test::wait_until('the store has loaded its dataset', sub {
        $self->is_alive or die "the store ended: " . $self->log_text . "\n";
        my $info = eval { $self->execute('INFO', 'persistence') };
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

# execute('XLEN', 'clairon:stream') returns the reply of the command, with arrays as references and nil as undef. Dies
# with the message of an error reply.
sub execute
{
    my ($self, @arguments) = @_;
    utf8::encode($_) for @arguments;
    return $self->execute_bytes(@arguments);
}

# Like execute(), with binary arguments, such as a reply of DUMP.
sub execute_bytes
{
    my ($self, @arguments) = @_;
    my $request = '*' . @arguments . "\r\n" . join '', map { '$' . length . "\r\n$_\r\n" } @arguments;
    my $reply = eval {
        my $link = $self->link;
        print {$link} $request or die "could not write: $!\n";
        $link->flush;
        [ read_reply($link) ];
    };
    if (!$reply)
    {
        my $error = $@;
        delete $self->{link};
        die $error;
    }
    croak $reply->[0][0] if ref $reply->[0] eq 'Clairon::Test::Store::Error';
    return $reply->[0];
}

sub is_closed
{
    my ($link) = @_;
    my $byte = '';
    return defined recv($link, $byte, 1, MSG_PEEK | MSG_DONTWAIT) && $byte eq '';
}

sub link
{
    my ($self) = @_;
    # A forked child would share the connection, so each process opens a separate connection. A sentinel closes all
    # connections of a server whose role it changes.
    if (!$self->{link} || $self->{link_pid} != $$ || is_closed($self->{link}))
    {
        $self->{link} = IO::Socket::UNIX->new(Peer => $self->{socket}, Timeout => $Clairon::Test::SECONDS)
          or die "could not connect to $self->{socket}: $!\n";
        $self->{link_pid} = $$;
    }
    return $self->{link};
}

sub read_reply
{
    my ($link) = @_;
    local $/ = "\r\n";
    my $line = <$link> // die "the store closed the connection\n";
    chomp $line;
    my ($kind, $rest) = (substr($line, 0, 1), substr($line, 1));
    return $rest if $kind eq '+' || $kind eq ':';
    return bless [$rest], 'Clairon::Test::Store::Error' if $kind eq '-';
    return undef if $rest < 0;
    return [ map { read_reply($link) } 1 .. $rest ] if $kind eq '*';
    die "unexpected reply of the store: $line\n" unless $kind eq '$';
    read($link, my $bytes, $rest + 2) == $rest + 2 or die "the store closed the connection\n";
    return substr $bytes, 0, $rest;
}

# CLAIRON_TEST_SHARDS: the number of shards that relays use.
sub shards { return $ENV{CLAIRON_TEST_SHARDS} || 1 }

# Returns the keys of all shards, for example keys('stream').
sub keys
{
    my ($self, $name) = @_;
    return $self->shards == 1 ? "clairon:$name" : map { "clairon:{$_}:$name" } 0 .. $self->shards - 1;
}

# Returns the key in the shared shard: memberships, state of the feed.
sub shared { return ($_[0]->keys($_[1]))[0] }

# Returns the key that exists in one of the shards, for example key("ack:$id"); the key of shard 0 if no such key
# exists.
sub key
{
    my ($self, $name) = @_;
    my ($first, @others) = $self->keys($name);
    return (grep { $self->execute('EXISTS', $_) } @others)[0] // $first;
}

# Returns the key in the shard that stores a notification, for example of($id, 'pending').
sub of
{
    my ($self, $id, $name) = @_;
    my ($first, @others) = $self->keys($name);
    return $first unless @others;
    my ($entry) = grep { $_->{id} eq $id } $self->entries;
    return $entry ? $entry->{stream} =~ s/stream$/$name/r : $first;
}

# Waits until the deliveries to these users are reported, then makes their next retries due immediately. Tests call it
# instead of setting a short ack timeout, which could expire before an ack on a busy machine.
sub make_due
{
    my ($self, $id, @users) = @_;
    my @pairs = map { "$id:$_" } @users;
    Clairon::Test::wait_until('the delivery is reported', sub { !grep { !defined $self->execute('ZSCORE', $self->of($id, 'due'), $_) } @pairs });
    $self->execute('ZADD', $self->of($id, 'due'), map { (1, $_) } @pairs);
    return;
}

# Makes the expiration of these notifications due immediately.
sub expire
{
    my ($self, @ids) = @_;
    my ($first, @others) = $self->keys('due');
    my %due = map { $_->{id} => $_->{stream} =~ s/stream$/due/r } @others ? $self->entries : ();
    my %members;
    push @{ $members{ $due{$_} // $first } }, 1, "$_:" for @ids;
    $self->execute('ZADD', $_, @{ $members{$_} }) for sort CORE::keys(%members);
    return;
}

# Returns the sum of a command's replies over the keys of all shards, for example sum('ZCARD', 'webpush').
sub sum
{
    my ($self, $command, $name, @arguments) = @_;
    my $sum = 0;
    $sum += $self->execute($command, $_, @arguments) for $self->keys($name);
    return $sum;
}

sub by_id
{
    my ($one, $other) = map { [ split /-/, $_->{entry} ] } @_;
    return $one->[0] <=> $other->[0] || $one->[1] <=> $other->[1];
}

# Returns the stream entries of one stream, or of all streams: references to hashes of the fields, with the entry id as
# `entry` and the key of the stream as `stream`.
sub entries
{
    my ($self, $key) = @_;
    my @all;
    for my $stream ($key // $self->keys('stream'))
    {
        for my $row (@{ $self->execute('XRANGE', $stream, '-', '+') })
        {
            my %of = (entry => $row->[0], stream => $stream);
            push @all, map { { %$_, %of } } $row->[1][0] eq 'n' ? Clairon::Test::Receipts::unpack_entry(@{ $row->[1] }) : { @{ $row->[1] } };
        }
    }
    @all = sort { by_id($a, $b) } @all unless $key || $self->shards == 1;
    return @all;    # in scalar context, the number of entries
}

# Returns the number of stream entries in all streams.
sub stored
{
    my ($self) = @_;
    return $self->sum('XLEN', 'stream');
}

# Return the error log entries of all shards, oldest first, and their number.
sub errors { my ($self) = @_; return sort { by_id($a, $b) } map { $self->entries($_) } $self->keys('errors') }

sub error_count
{
    my ($self) = @_;
    return $self->sum('XLEN', 'errors');
}

# Returns the users who had to acknowledge the notification with this stream entry.
sub audience_of
{
    my ($self, $entry) = @_;
    my ($ack, $acked, $trace) = map { $entry->{stream} =~ s/stream$/$_:$entry->{id}/r } qw(ack acked trace);
    my %users = map { @{ $self->execute('HGETALL', $_) } } $ack, $acked;
    # After the last user has acknowledged, only the trace remains.
    if (!%users) { $users{$_} = 1 for map { /^acked \S+ \S+ \S+ (.*)/ } @{ $self->execute('LRANGE', $trace, 0, -1) } }
    return sort { $a cmp $b } CORE::keys %users;
}

# Returns the number of unacknowledged stream entries.
sub pending
{
    my ($self, $key) = @_;
    my $count = 0;
    $count += $self->execute('XPENDING', $_, 'clairon')->[0] for $key // $self->keys('stream');
    return $count;
}

1;

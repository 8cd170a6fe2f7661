# Clairon::Test::Endpoint: an HTTP endpoint of a webhook, which records requests and replies as the test sets.
package Clairon::Test::Endpoint;

use strict;
use warnings;

use parent -norequire, 'Clairon::Test::Process';
use Clairon::Test::Process;
use IO::Socket::INET;
use JSON ();
use POSIX ();

# Options: folder.
sub new
{
    my ($class, %options) = @_;
    my $folder = $options{folder};
    my $self   = bless { name => 'endpoint', folder => $folder, log => "$folder/log", port => Clairon::Test::free_port() }, $class;
    $self->reply(200);
    return $self;
}

# Returns a started endpoint in a new folder, which ends with the test.
sub launch
{
    my ($class) = @_;
    my $self = $class->new(folder => Clairon::Test::new_folder('endpoint'));
    Clairon::Test::remember($self);
    $self->start;
    return $self;
}

sub url { return "http://127.0.0.1:$_[0]{port}/hook" }

# The file with the secret that signs the requests to this endpoint.
sub secret_file
{
    my ($self) = @_;
    my $file = "$self->{folder}/secret";
    Clairon::Test::Relay->write_file($file, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n");
    chmod 0600, $file;
    return $file;
}

# The settings of a relay that sends receipts to this endpoint.
sub settings { my ($self) = @_; return ('webhook.url' => $self->url, 'webhook.secret_file' => $self->secret_file, 'webhook.allow_private' => 'true') }

# Sets the status of further replies and their headers: reply(503, 'Retry-After: 2'). The status 0: no reply at all.
sub reply
{
    my ($self, $status, @headers) = @_;
    open my $file, '>', "$self->{folder}/reply.new" or die "could not write: $!\n";
    print {$file} JSON::encode_json([ $status, @headers ]);
    close $file;
    rename "$self->{folder}/reply.new", "$self->{folder}/reply" or die "could not rename: $!\n";
    return;
}

# Returns the recorded requests, oldest first: { status, headers => {..}, body, json }.
sub requests
{
    my ($self) = @_;
    open my $file, '<', "$self->{folder}/requests" or return;
    my @lines = grep { /\n\z/ } <$file>;
    return map { my $request = JSON::decode_json($_); $request->{json} = JSON::decode_json($request->{body}); $request } @lines;
}

# Returns the ids of the receipts in requests with a reply 2xx.
sub received { my ($self) = @_; return map { $_->{id} } map { @{ $_->{json}{receipts} } } grep { $_->{status} =~ /^2/ } $self->requests }

sub start
{
    my ($self) = @_;
    my $listener = IO::Socket::INET->new(LocalAddr => '127.0.0.1', LocalPort => $self->{port}, Listen => 64, ReuseAddr => 1) or die "could not listen: $!\n";
    my $pid = fork // die "could not fork: $!";
    if ($pid) { $self->{pid} = $pid; return }
    POSIX::setsid();
    local $SIG{CHLD} = 'IGNORE';
    local $SIG{TERM} = 'DEFAULT';
    while (1)
    {
        my $socket = $listener->accept or next;
        next if fork;
        close $listener;
        alarm 600;
        $self->serve($socket);
        POSIX::_exit(0);
    }
    return;
}

sub serve
{
    my ($self, $socket) = @_;
    while (defined(my $line = <$socket>))
    {
        my $is_post = $line =~ /^POST /;    # the doctor sends a GET, which is not recorded
        my (%headers, $body);
        while (defined($line = <$socket>) && $line !~ /^\r?\n/) { $headers{ lc $1 } = $2 if $line =~ /^([^:]+):\s*(.*?)\r?\n/ }
        read $socket, $body, $headers{'content-length'} // 0;
        open my $file, '<', "$self->{folder}/reply" or return;
        my ($status, @extra) = @{ JSON::decode_json(<$file>) };
        open my $requests, '>>', "$self->{folder}/requests" or return;
        syswrite $requests, JSON::encode_json({ status => $status, headers => \%headers, body => $body }) . "\n" if $is_post;
        close $requests;
        if ($status == 0) { sleep 1 while 1 }
        print {$socket} join "\r\n", "HTTP/1.1 $status Status", 'Content-Length: 0', @extra, '', '';
        $socket->flush;
    }
    return;
}

# The process ends by SIGTERM, and its connections with it.
sub end { my ($self) = @_; return unless $self->{pid}; kill TERM => -$self->{pid}; $self->wait_end; return }

1;

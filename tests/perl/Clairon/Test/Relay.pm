# Clairon::Test::Relay: one `clairon relay` process with its settings.
package Clairon::Test::Relay;

use strict;
use warnings;

use parent -norequire, 'Clairon::Test::Process';
use Clairon::Test::Process;
use HTTP::Tiny;
use PostgreSQL::Test::Utils ();

# Options: folder, program, port, database, roles, conf => { 'section.key' => value or undef }.
sub new
{
    my ($class, $pg, $store, %options) = @_;
    my $folder = $options{folder};
    my $self   = bless {
        name     => 'relay',
        folder   => $folder,
        log      => "$folder/log",
        file     => "$folder/relay.conf",
        program  => $options{program} // Clairon::Test::program(),
        port     => $options{port}    // Clairon::Test::free_port(),
        settings => {},
    }, $class;
    my $database = $options{database} // 'postgres';
    $self->write_file("$folder/secret", $Clairon::Test::SECRET);
    chmod 0600, "$folder/secret";
    $self->configure(
        ($pg ? ('feed.conninfo' => $pg->connstr($database) . ' user=relay') : ()),
        'feed.slot' => 'clairon',
        ($store ? ('store.url' => $store->url) : ()),
        'gate.listen'            => "127.0.0.1:$self->{port}",
        'gate.notice'            => '0s',
        'gate.drain'             => '100ms',
        'gate.ping'              => '1h',    # clients reply only while the test runs their loop
        'delivery.shed_lag'      => '1h',    # a busy machine must not drop notifications
        'auth.hs256_secret_file' => "$folder/secret",
        'relay.log_level'        => 'debug',
        ($store && $store->shards > 1 ? ('store.shards' => $store->shards) : ()),
        ($options{roles} ? ('relay.roles' => $options{roles}) : ()),
        %{ $options{conf} // {} });
    return $self;
}

sub write_file
{
    my ($self, $path, $text) = @_;
    open my $file, '>', $path or die "could not write $path: $!\n";
    print {$file} $text;
    close $file or die "could not write $path: $!\n";
    return;
}

# Changes settings in the file, which the next start reads. undef removes a setting.
sub configure
{
    my ($self, %changes) = @_;
    my $settings = $self->{settings};
    @{$settings}{ keys %changes } = values %changes;
    my %sections;
    for my $name (sort grep { defined $settings->{$_} } keys %$settings)
    {
        my ($section, $key) = split /\./, $name, 2;
        push @{ $sections{$section} }, "$key = $settings->{$name}";
    }
    $self->write_file($self->{file},
        join '', map { join "\n", "[$_]", @{ $sections{$_} }, '', '' } sort keys %sections);
    return;
}

# run('errors', 'list'): runs that clairon command with the same settings. Returns its exit status (-1: killed by a
# signal), stdout and stderr.
sub run
{
    my ($self, @arguments) = @_;
    my ($out, $err) = ('', '');
    PostgreSQL::Test::Utils::run_log([ $self->{program}, @arguments, '-c', $self->{file} ], '>', \$out, '2>', \$err);
    return ($? & 127 ? -1 : $? >> 8, $out, $err);
}

sub command { return ($_[0]{program}, 'relay', '-c', $_[0]{file}) }

sub restart
{
    my ($self) = @_;
    $self->stop;
    $self->start;
    $self->wait_ready;
    return;
}

sub url { return "http://127.0.0.1:$_[0]{port}" . ($_[1] // '') }

# get('/metrics') returns status and body; the status is 0 if the request fails.
sub get
{
    my ($self, $path, %headers) = @_;
    my $agent = $self->{agent} //= HTTP::Tiny->new(timeout => 60, max_redirect => 0, keep_alive => 0);
    my $result = $agent->get($self->url($path), { headers => \%headers });
    return ($result->{status} == 599 ? 0 : $result->{status}, $result->{content});
}

# Returns the value of a metric without labels; undef if the metric is absent.
sub metric
{
    my ($self, $name) = @_;
    my ($status, $body) = $self->get('/metrics');
    return $status == 200 && $body =~ /^\Q$name\E (\S+)$/m ? $1 : undef;
}

# The request to which a relay responds with 200 when it is ready and its feed, if any, streams or is in standby.
sub readiness { my $roles = $_[0]{settings}{'relay.roles'} // ''; return $roles eq '' || $roles =~ /feed/ ? '/readyz?need=feed' : '/readyz' }

# Waits until the relay is ready and its feed streams or is in standby. A relay with only the feed role has no port, but logs
# when streaming starts.
sub wait_ready
{
    my ($self, $seconds) = @_;
    my $roles = $self->{settings}{'relay.roles'} // '';
    if ($roles eq 'feed')
    {
        return $self->wait_for_log(qr/streaming from slot/, from => $self->{start_mark}, seconds => $seconds);
    }
    Clairon::Test::wait_until('the relay is ready', sub {
        $self->is_alive or die "the relay ended:\n" . $self->log_text . "\n";
        return ($self->get($self->readiness))[0] == 200;
    }, $seconds);
    return;
}

# Returns a connected WebSocket of this user. Options: pos, win, topics, ends, claims of the token (groups, publish, exp), or
# token => a complete token.
sub client
{
    my ($self, $user, %options) = @_;
    my %connect = map { $_ => delete $options{$_} } grep { defined $options{$_} } qw(pos win topics ends);
    my $token   = delete $options{token} // Clairon::Test::token(sub => $user, %options);
    require Clairon::Test::Client;    # it ignores SIGPIPE, also in programs that the test starts
    my $client  = Clairon::Test::Client->new($self->url('/v1/ws'));
    $client->connect($token, %connect);
    return $client;
}

1;

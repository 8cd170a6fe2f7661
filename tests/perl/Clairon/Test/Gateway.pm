# Clairon::Test::Gateway: nginx, HAProxy or Caddy in front of two relays, with its configuration in docker/.
#
#   my @names   = grep { Clairon::Test::Gateway::is_installed($_) } Clairon::Test::Gateway::names();
#   my $gateway = Clairon::Test::Gateway->new('haproxy', \@relays, 'balance leastconn' => 'balance url_param shard');
#   $gateway->{url}, $gateway->{port}
package Clairon::Test::Gateway;

use strict;
use warnings;

use parent -norequire, 'Clairon::Test::Process';
use Clairon::Test::Process;
use PostgreSQL::Test::Utils qw(slurp_file);
use Test::More;

my %KINDS = (
    nginx => {
        file     => 'nginx.conf',
        command  => sub { return ('/usr/sbin/nginx', '-p', $_[0], '-c', "$_[0]/nginx.conf", '-e', 'stderr') },
        complete => sub {
            my ($conf, $folder) = @_;
            return "daemon off;\npid $folder/nginx.pid;\nevents { worker_connections 512; }\nhttp {\naccess_log off;\n" .
              join('', map { "${_}_temp_path $folder/$_;\n" } qw(client_body proxy fastcgi uwsgi scgi)) . "$conf}\n";
        } },
    haproxy => {
        file     => 'haproxy.cfg',
        command  => sub { return ('/usr/sbin/haproxy', '-db', '-f', "$_[0]/haproxy.cfg") },
        complete => sub { return $_[0] =~ s/maxconn 40000/maxconn 1000/r } },    # needs fewer descriptors
    caddy => {
        file     => 'Caddyfile',
        command  => sub { return ('/usr/bin/caddy', 'run', '--config', "$_[0]/Caddyfile", '--adapter', 'caddyfile') },
        complete => sub { return "{\n\tadmin off\n\tauto_https off\n}\n$_[0]" } });

sub names { return sort keys %KINDS }

sub is_installed
{
    my ($program) = $KINDS{ $_[0] }{command}->('');
    return -x $program;
}

# Starts the gateway with its configuration, unchanged except for addresses and the given lines.
sub new
{
    my ($class, $name, $relays, %lines) = @_;
    my $kind   = $KINDS{$name};
    my $folder = Clairon::Test::new_folder($name);
    my $port   = Clairon::Test::free_port();
    my %ports  = (8080 => $port, 8081 => $relays->[0]{port}, 8082 => $relays->[1]{port});
    my $conf   = slurp_file(Clairon::Test::top() . "/docker/$kind->{file}");
    for my $line (sort keys %lines)
    {
        is($conf =~ s/^ *\Q$line\E\n/$lines{$line}/m, 1, "$kind->{file} has the line \"$line\"");
    }
    my %found;
    $conf =~ s/:(808[012])\b/$found{$1} = 1; ":$ports{$1}"/ge;
    is_deeply([ sort keys %found ], [ 8080, 8081, 8082 ], "$kind->{file} has two relays");
    open my $file, '>', "$folder/$kind->{file}" or die "could not write: $!";
    print {$file} $kind->{complete}->($conf, $folder);
    close $file or die "could not write: $!";
    my $self = bless { name => $name, log => "$folder/log", port => $port, url => "http://127.0.0.1:$port", command => [ $kind->{command}->($folder) ] }, $class;
    local @ENV{qw(XDG_DATA_HOME XDG_CONFIG_HOME)} = ($folder, $folder);    # of Caddy
    Clairon::Test::remember($self);
    $self->start;
    return $self;
}

sub command { return @{ $_[0]{command} } }

1;
